"""A sentence encoder from files, beside a plain second version of the model that they hold."""

import json
import pickle
import shutil
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convgym.data.embedding_cache import EmbeddingCache
from convgym.errors import InvalidConfiguration, MissingExtra
from convgym.language import onnx_encoder
from convgym.language.encoders import Encoder, encoder_of
from convgym.language.onnx_encoder import OnnxEncoder

reason = 'needs onnx, onnxruntime and tokenizers: pip install "convgym[test]"'
onnx = pytest.importorskip("onnx", reason=reason)
pytest.importorskip("onnxruntime", reason=reason)
tokenizers = pytest.importorskip("tokenizers", reason=reason)

VOCABULARY = "[PAD] [UNK] [CLS] [SEP] where is my parcel i want to cancel the order ? !".split()
DIM = 6
_RNG = np.random.default_rng(0)
WEIGHTS = {
    name: _RNG.normal(size=shape).astype(np.float32)
    for name, shape in {
        "words": (len(VOCABULARY), DIM),
        "kinds": (2, DIM),
        "positions": (onnx_encoder.MOST_TOKENS, DIM),
        "queries": (DIM, DIM),
        "keys": (DIM, DIM),
        "values": (DIM, DIM),
        "scale": (DIM,),
        "bias": (DIM,),
    }.items()
}
TEXTS = ["Where is my parcel?", "", "unknown words", "cancel the order!", "\ud800 order"]


def tokens_of(text):
    """The ids that the tokenizer file stands for."""
    words = text.lower().replace("?", " ? ").replace("!", " ! ").split()
    words = ["[CLS]", *words[: onnx_encoder.MOST_TOKENS - 2], "[SEP]"]
    return [VOCABULARY.index(word) if word in VOCABULARY else 1 for word in words]


def slowly(text):
    """One text, without padding: embeddings, one head of attention, a layer norm, mean, length."""
    ids, w = tokens_of(text), {name: value.astype(np.float64) for name, value in WEIGHTS.items()}
    seen = w["words"][ids] + w["kinds"][0] + w["positions"][: len(ids)]
    scores = (seen @ w["queries"]) @ (seen @ w["keys"]).T
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    out = seen + shares @ (seen @ w["values"])
    out = (out - out.mean(axis=1, keepdims=True)) / np.sqrt(out.var(axis=1, keepdims=True) + 1e-5)
    mean = (out * w["scale"] + w["bias"]).mean(axis=0)
    return mean / np.linalg.norm(mean)


def write_model(path):
    """The same as a graph, with the inputs and outputs of all-MiniLM-L6-v2's."""
    node, texts = onnx.helper.make_node, ["texts", "tokens"]
    whole, real = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
    constants = {
        **WEIGHTS,
        "zero": np.array(0),
        "one": np.array(1),
        "row": np.array([1]),
        "far": np.array(-1e4, dtype=np.float32),
        "all": np.array(1.0, dtype=np.float32),
    }
    nodes = [
        node("Gather", ["words", "input_ids"], ["word"]),
        node("Gather", ["kinds", "token_type_ids"], ["kind"]),
        node("Shape", ["input_ids"], ["shape"]),
        node("Gather", ["shape", "one"], ["length"]),
        node("Range", ["zero", "length", "one"], ["places"]),
        node("Gather", ["positions", "places"], ["position"]),
        node("Sum", ["word", "kind", "position"], ["seen"]),
        node("MatMul", ["seen", "queries"], ["query"]),
        node("MatMul", ["seen", "keys"], ["key"]),
        node("MatMul", ["seen", "values"], ["value"]),
        node("Transpose", ["key"], ["turned"], perm=[0, 2, 1]),
        node("MatMul", ["query", "turned"], ["scores"]),
        node("Cast", ["attention_mask"], ["there"], to=real),
        node("Sub", ["all", "there"], ["absent"]),
        node("Mul", ["absent", "far"], ["hidden"]),
        node("Unsqueeze", ["hidden", "row"], ["hidden_row"]),
        node("Add", ["scores", "hidden_row"], ["masked"]),
        node("Softmax", ["masked"], ["shares"], axis=-1),
        node("MatMul", ["shares", "value"], ["read"]),
        node("Add", ["seen", "read"], ["both"]),
        node("LayerNormalization", ["both", "scale", "bias"], ["last_hidden_state"]),
    ]
    inputs = ("input_ids", "attention_mask", "token_type_ids")
    graph = onnx.helper.make_graph(
        nodes,
        "tiny",
        [onnx.helper.make_tensor_value_info(name, whole, texts) for name in inputs],
        [onnx.helper.make_tensor_value_info("last_hidden_state", real, [*texts, DIM])],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opset = onnx.helper.make_opsetid("", 17)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def write_tokenizer(path):
    """Words in small letters; cut and padded at 8, which the encoder must not heed."""
    places = {word: place for place, word in enumerate(VOCABULARY)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(places, unk_token="[UNK]"))
    made.normalizer = tokenizers.normalizers.BertNormalizer()
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.enable_truncation(max_length=8)
    made.enable_padding(length=8)
    made.save(str(path))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("tiny-sentence-model")
    (place / "onnx").mkdir()
    write_model(place / "onnx" / "model.onnx")
    write_tokenizer(place / "tokenizer.json")
    return place


@pytest.fixture(scope="module")
def encoder(folder):
    return encoder_of(folder)


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


# -- what a vector is ------------------------------------------------------------------------------


SAID = st.lists(st.sampled_from([*VOCABULARY[4:], "Parcel", "elsewhere"])).map(" ".join)


@given(texts=st.lists(SAID, max_size=6))
@settings(max_examples=40)
def test_vectors_equal_the_plain_version(encoder, texts):
    found = encoder.encode(texts)
    assert (found.shape, found.dtype) == ((len(texts), DIM), np.float32)
    for text, row in zip(texts, found, strict=True):
        assert row == pytest.approx(slowly(text), abs=1e-5)


def test_many_texts_of_many_lengths_keep_their_order(encoder):
    rng = np.random.default_rng(1)
    texts = [" ".join(rng.choice(VOCABULARY[4:], size=rng.integers(0, 60))) for _ in range(100)]
    found = encoder.encode(texts)
    assert found == pytest.approx(np.array([slowly(text) for text in texts]), abs=1e-5)
    assert found.tobytes() == encoder.encode(texts).tobytes()


def test_a_long_text_is_cut_at_256_tokens(encoder):
    long = "parcel " * 254
    assert encoder.encode([long])[0] == pytest.approx(slowly(long), abs=1e-5)
    assert encoder.encode([long + "cancel the order"]).tobytes() == encoder.encode([long]).tobytes()
    assert encoder.encode([long[7:]])[0] != pytest.approx(slowly(long), abs=1e-5)


def test_half_a_character_is_an_unknown_word(encoder):
    assert encoder.encode(["\ud800 order"]).tobytes() == encoder.encode(["? order"]).tobytes()


def test_one_text_is_no_list_of_texts(encoder):
    with pytest.raises(InvalidConfiguration, match="takes a list"):
        encoder.encode("hello")


def test_an_encoder_without_special_tokens_has_nothing_to_say_of_no_text(copy, monkeypatch):
    path = copy / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "post_processor": None}))
    encoder = OnnxEncoder(copy)
    assert np.linalg.norm(encoder.encode(["", "parcel"]), axis=1) == pytest.approx([0, 1])
    shapes, run = [], encoder._session.run

    def watched(outputs, inputs):
        shapes.append(inputs["input_ids"].shape)
        return run(outputs, inputs)

    monkeypatch.setattr(encoder._session, "run", watched)
    assert encoder.encode([""]).tolist() == [[0] * DIM]
    assert shapes == [(1, 1)]  # many models fail on no tokens at all


# -- which encoder it is ---------------------------------------------------------------------------


def test_the_name_tells_files_apart(encoder, copy):
    assert isinstance(encoder, Encoder) and encoder.dim == DIM
    (copy / "onnx" / "model.onnx").rename(copy / "model.onnx")
    assert OnnxEncoder(copy).name == encoder.name
    tokenizer = copy / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text() + "\n")
    names = {encoder.name, OnnxEncoder(copy).name}
    model = onnx.load(copy / "model.onnx")
    model.doc_string = "another"
    onnx.save(model, copy / "model.onnx")
    names.add(OnnxEncoder(copy).name)
    (copy / "model.onnx_data").write_bytes(b"weights beside the model")
    names.add(OnnxEncoder(copy).name)
    (copy / "model_quantized.onnx").write_bytes(b"what is not loaded")
    names.add(OnnxEncoder(copy).name)
    assert len(names) == 4


def test_the_cache_keeps_its_vectors(encoder, tmp_path):
    texts = ["the order", "parcel?", "", "\ud800 the"]
    first = EmbeddingCache(tmp_path, encoder).encode(texts)
    assert first.tobytes() == encoder.encode(texts).tobytes()
    again = EmbeddingCache(tmp_path, encoder)
    assert (again.path.name, len(again)) == (f"{encoder.name}.vectors", 4)
    assert again.encode(texts[::-1]).tobytes() == first[::-1].tobytes()


def test_a_pickled_encoder_loads_its_files_again(encoder):
    other = pickle.loads(pickle.dumps(encoder))
    assert other.name == encoder.name
    assert other.encode(TEXTS).tobytes() == encoder.encode(TEXTS).tobytes()


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["onnx/model.onnx", "tokenizer.json"])
def test_a_folder_without_its_files_is_refused(name, copy):
    (copy / name).write_bytes(b"hello")
    with pytest.raises(InvalidConfiguration, match="holds no sentence encoder"):
        OnnxEncoder(copy)
    (copy / name).unlink()
    with pytest.raises(InvalidConfiguration, match="lacks a sentence encoder's files"):
        OnnxEncoder(copy)


def test_a_model_of_something_else_is_refused(copy):
    value = onnx.helper.make_tensor_value_info
    real = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["pixels"], ["label"])],
        "picture",
        [value("pixels", real, [3])],
        [value("label", real, [3])],
    )
    opset = onnx.helper.make_opsetid("", 17)
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8),
        copy / "onnx" / "model.onnx",
    )
    with pytest.raises(InvalidConfiguration, match=r"takes \['pixels'\] and gives \[3\]"):
        OnnxEncoder(copy)


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers"])
def test_a_missing_package_names_its_extra(package, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"'{package}'.*convgym\[onnx\]"):
        OnnxEncoder(folder)

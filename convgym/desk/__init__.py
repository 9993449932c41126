"""A service desk from its declaration: records, rules, workflows and phrases in, a domain out."""

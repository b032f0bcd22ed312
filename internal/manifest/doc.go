// Package manifest reads Kubernetes manifests from files, for commands that work offline.
//
// It takes YAML and JSON, several documents to a file, and List objects. Kinds that have no part in
// network policy are left out with a note. Everything else is checked as the API server would check
// it: an unknown field, a value of the wrong type, or an object given twice is an error that names
// file and line, and Load fails; an object that breaks the schema or the rules of its kind is
// marked as refused.
//
// Load does I/O and is not safe for concurrent use, a Parser does none and is; what they return is
// immutable by convention.
package manifest

// Package build describes estates of the simulated Azure in Go, for tests and examples.
//
// It owns the Builder, which adds resources to an azure.State and makes their identifiers from
// their names. It promises documents as an owner would write them, and nothing else: whether they
// are valid azure.New says. A Builder is for one goroutine.
package build

// Command protobuf writes the protocol buffers encoding of Kubernetes API types from their struct
// tags alone: no protoc, no description beside the Go types. For every struct of a package that has
// fields with a protobuf tag it writes Reset, Size, Marshal, MarshalTo, MarshalToSizedBuffer and
// Unmarshal into zz_generated.protobuf.go, and the name that the type has in OpenAPI, which
// Kubernetes' own types have from a generator, too. The encoding is byte for byte compatible with
// what the Kubernetes project's own generator makes of the same tags: fields in the order of their
// numbers, plain ones always written, pointers and lists only when they hold something.
//
// Usage, from the root of the module: protobuf DIR...
//
// It runs once and to the end. The same input gives the same output.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: protobuf DIR...")
		os.Exit(2)
	}
	for _, dir := range os.Args[1:] {
		if err := generate(dir); err != nil {
			fmt.Fprintf(os.Stderr, "protobuf: %s: %v\n", dir, err)
			os.Exit(1)
		}
	}
}

func generate(dir string) error {
	p, err := parse(dir)
	if err != nil {
		return err
	}
	out, err := render(p)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, output), out, 0o644); err != nil {
		return fmt.Errorf("write the methods: %w", err)
	}
	return nil
}

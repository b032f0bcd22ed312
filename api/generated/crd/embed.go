// Package crd holds the CustomResourceDefinitions of all kinds that are stored in the Kubernetes API, as YAML.
//
// The YAML files are generated from the Go types of package api (make generate) and never edited by hand; this package
// promises no more than to hand them out as they are. It is safe for concurrent use.
package crd

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed *.yaml
var files embed.FS

// FS returns the manifests as a file system: one CustomResourceDefinition per file, all in the root.
func FS() fs.FS {
	return files
}

// Manifest is one CustomResourceDefinition.
type Manifest struct {
	// File is the name of the file in FS, GROUP_PLURAL.yaml.
	File string
	// YAML is its content: one document. The caller owns the slice.
	YAML []byte
}

// Manifests returns all manifests, sorted by file name.
func Manifests() ([]Manifest, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing the embedded manifests: %w", err)
	}
	out := make([]Manifest, 0, len(names))
	for _, name := range names {
		content, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading an embedded manifest: %w", err)
		}
		out = append(out, Manifest{File: name, YAML: content})
	}
	return out, nil
}

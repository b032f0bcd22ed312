// Package crd holds the CustomResourceDefinitions of all kinds that are stored in the Kubernetes API, as YAML.
//
// The YAML files are generated from the Go types of package api, those in the folder upstream from the Go types of
// sigs.k8s.io/network-policy-api (make generate), and never edited by hand; this package promises no more than to hand them
// out as they are. It is safe for concurrent use.
package crd

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
)

//go:embed *.yaml upstream/*.yaml
var files embed.FS

// FS returns the manifests as a file system: one CustomResourceDefinition per file, ours in the root, those of
// policy.networking.k8s.io in the folder upstream.
func FS() fs.FS {
	return files
}

// Manifest is one CustomResourceDefinition.
type Manifest struct {
	// File is the name of the file, GROUP_PLURAL.yaml, without its folder.
	File string
	// YAML is its content: one document. The caller owns the slice.
	YAML []byte
}

// Manifests returns all manifests: ours, then those of policy.networking.k8s.io, each sorted by file name.
func Manifests() ([]Manifest, error) {
	var out []Manifest
	for _, pattern := range []string{"*.yaml", "upstream/*.yaml"} {
		names, err := fs.Glob(files, pattern)
		if err != nil {
			return nil, fmt.Errorf("listing the embedded manifests: %w", err)
		}
		for _, name := range names {
			content, err := files.ReadFile(name)
			if err != nil {
				return nil, fmt.Errorf("reading an embedded manifest: %w", err)
			}
			out = append(out, Manifest{File: path.Base(name), YAML: content})
		}
	}
	return out, nil
}

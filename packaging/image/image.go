// Package image makes container images of a binary without a container engine, and the lists of
// what is in them.
//
// It owns what is in an image: the binary, those for Nodes, the public certificate authorities, the
// names of the user, and the list of modules the binary was built from (CycloneDX). It promises
// that the same binaries, version and time make the same bytes, wherever and whenever that is. It
// is safe for concurrent use.
package image

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is nobody in particular: not root, and the one that the manifests name.
const user = 65532

// Where things are in an image.
const (
	binaryPath = "nephele"
	agentPath  = "nephele-agent"
	pluginPath = "nephele-cni"
	rootsPath  = "etc/ssl/certs/ca-certificates.crt"
	bomPath    = "usr/share/sbom/nephele.cdx.json"
)

// Binary is a program for one platform.
type Binary struct {
	OS, Architecture string
	Content          []byte
	// Agent is the program for hosts and Nodes, Plugin the CNI plugin; empty for none. They are
	// made of modules that the program is made of as well.
	Agent, Plugin []byte
}

// Release says what the binaries are of.
type Release struct {
	Version, Revision string
	// Time is that of the commit; files and images have no other.
	Time time.Time
}

// Index makes one image for each binary, and the index by which a registry tells them apart.
func Index(r Release, binaries []Binary) (v1.ImageIndex, error) {
	var index v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range binaries {
		one, err := single(r, b)
		if err != nil {
			return nil, fmt.Errorf("image for %s/%s: %w", b.OS, b.Architecture, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        one,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: b.OS, Architecture: b.Architecture}},
		})
	}
	return mutate.Annotations(index, r.annotations()).(v1.ImageIndex), nil
}

func (r Release) annotations() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    "nephele",
		"org.opencontainers.image.version":  r.Version,
		"org.opencontainers.image.revision": r.Revision,
		"org.opencontainers.image.created":  r.Time.UTC().Format(time.RFC3339),
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.source":   "https://github.com/nephele-io/nephele",
	}
}

func single(r Release, b Binary) (v1.Image, error) {
	bom, err := BillOfMaterials(r, b.Content)
	if err != nil {
		return nil, err
	}
	// What changes rarely is below what changes with every version.
	base, err := layer(r.Time, []file{
		{"etc/", 0o755, nil},
		{"etc/group", 0o644, fmt.Appendf(nil, "root:x:0:\nnonroot:x:%d:\n", user)},
		{"etc/passwd", 0o644, fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:%d:%d:nonroot:/:/sbin/nologin\n", user, user)},
		{"etc/ssl/", 0o755, nil},
		{"etc/ssl/certs/", 0o755, nil},
		{rootsPath, 0o644, authorities()},
	})
	if err != nil {
		return nil, err
	}
	files := []file{{binaryPath, 0o755, b.Content}}
	for _, f := range []file{{agentPath, 0o755, b.Agent}, {pluginPath, 0o755, b.Plugin}} {
		if len(f.content) > 0 {
			files = append(files, f)
		}
	}
	program, err := layer(r.Time, append(files, []file{
		{"usr/", 0o755, nil},
		{"usr/share/", 0o755, nil},
		{"usr/share/sbom/", 0o755, nil},
		{bomPath, 0o644, bom},
	}...))
	if err != nil {
		return nil, err
	}
	one := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	one, err = mutate.ConfigFile(one, &v1.ConfigFile{
		OS: b.OS, Architecture: b.Architecture, Created: v1.Time{Time: r.Time.UTC()},
		Config: v1.Config{
			Entrypoint: []string{"/" + binaryPath}, User: fmt.Sprintf("%d:%d", user, user), WorkingDir: "/", Labels: r.annotations(),
		},
		RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	created := v1.History{Created: v1.Time{Time: r.Time.UTC()}, CreatedBy: "nephele packaging"}
	one, err = mutate.Append(one, mutate.Addendum{Layer: base, History: created}, mutate.Addendum{Layer: program, History: created})
	if err != nil {
		return nil, fmt.Errorf("layers: %w", err)
	}
	return one, nil
}

// authorities are those that Go programs trust where a machine has none of its own, as a PEM file.
// An authority whose later certificates are not to be trusted is left out, because a file cannot
// say so.
func authorities() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return out.Bytes()
}

// file is a file of a layer; its name ends with "/" if it is a folder.
type file struct {
	name    string
	mode    int64
	content []byte
}

func layer(at time.Time, files []file) (v1.Layer, error) {
	var raw bytes.Buffer
	w := tar.NewWriter(&raw)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: at.UTC().Truncate(time.Second), Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if f.name[len(f.name)-1] == '/' {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("close the layer: %w", err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw.Bytes())), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("compress the layer: %w", err)
	}
	return l, nil
}

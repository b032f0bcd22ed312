package image

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// BillOfMaterials lists, in CycloneDX's JSON, the modules that a binary was built from, as the
// binary itself says: what the linker left out is not in it.
func BillOfMaterials(r Release, binary []byte) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return nil, fmt.Errorf("what the binary was built from: %w", err)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp: r.Time.UTC().Format(time.RFC3339),
		Component: &cdx.Component{
			BOMRef: "nephele", Type: cdx.ComponentTypeApplication, Name: "nephele", Version: r.Version, PackageURL: purl(info.Main.Path, r.Version),
			Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		},
	}
	components := []cdx.Component{{BOMRef: "go", Type: cdx.ComponentTypePlatform, Name: "go", Version: strings.TrimPrefix(info.GoVersion, "go"),
		PackageURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}}
	for _, m := range info.Deps {
		c, err := component(m)
		if err != nil {
			return nil, err
		}
		components = append(components, c)
	}
	slices.SortFunc(components, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	bom.Components = &components
	var refs []string
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}
	bom.Dependencies = &[]cdx.Dependency{{Ref: "nephele", Dependencies: &refs}}
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("list of modules: %w", err)
	}
	return out.Bytes(), nil
}

func component(m *debug.Module) (cdx.Component, error) {
	if m.Replace != nil {
		m = m.Replace
	}
	c := cdx.Component{Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: purl(m.Path, m.Version)}
	c.BOMRef = c.PackageURL
	// The checksum of go.sum is a SHA-256 over the names and the SHA-256 of the files.
	if sum, ok := strings.CutPrefix(m.Sum, "h1:"); ok {
		raw, err := base64.StdEncoding.DecodeString(sum)
		if err != nil {
			return cdx.Component{}, fmt.Errorf("checksum of %s: %w", m.Path, err)
		}
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}}
	}
	return c, nil
}

func purl(path, version string) string { return "pkg:golang/" + path + "@" + version }

package sign

import (
	"encoding/json"
	"maps"
	"runtime"
	"slices"
	"strings"
)

// Source is what a release was made of.
type Source struct {
	// Repository is the address of the source, Revision the commit, Version the release.
	Repository, Revision, Version string
}

// The addresses by which SLSA names the builder and the kind of build.
const (
	builder   = "/blob/main/Makefile#release"
	buildType = "/blob/main/docs/releases.md#how-a-release-is-made"
)

type digests map[string]string

type resource struct {
	URI    string  `json:"uri,omitempty"`
	Name   string  `json:"name,omitempty"`
	Digest digests `json:"digest"`
}

// Provenance is a statement of in-toto with the provenance of SLSA (v1): which files, by their
// SHA-256 in hexadecimal digits, were made of which commit. It names no time and no machine, so
// that every build of the same commit says the same.
func Provenance(s Source, files map[string]string) ([]byte, error) {
	type object = map[string]any
	var subjects []resource
	for _, name := range slices.Sorted(maps.Keys(files)) {
		subjects = append(subjects, resource{Name: name, Digest: digests{"sha256": files[name]}})
	}
	return json.Marshal(object{
		"_type": "https://in-toto.io/Statement/v1", "subject": subjects, "predicateType": "https://slsa.dev/provenance/v1",
		"predicate": object{
			"buildDefinition": object{
				"buildType":          s.Repository + buildType,
				"externalParameters": object{"version": s.Version, "target": "release"},
				"internalParameters": object{"go": strings.TrimPrefix(runtime.Version(), "go")},
				"resolvedDependencies": []resource{{
					URI: "git+" + s.Repository + "@" + s.Revision, Digest: digests{"gitCommit": s.Revision},
				}},
			},
			"runDetails": object{"builder": object{"id": s.Repository + builder}},
		},
	})
}

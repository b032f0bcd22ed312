package crd_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// specCase is an object of which only the spec matters, and the answer of kube-apiserver.
type specCase struct {
	name string
	spec string // YAML
	want string // part of the error; empty if the object is accepted
}

func withSpec(t *testing.T, apiVersion, kind, spec string) *unstructured.Unstructured {
	t.Helper()
	content, err := yaml.YAMLToJSON([]byte(spec))
	if err != nil {
		t.Fatalf("parsing %s: %v", spec, err)
	}
	obj := &unstructured.Unstructured{}
	whole := `{"apiVersion":"` + apiVersion + `","kind":"` + kind + `","metadata":{"name":"a","namespace":"n"},"spec":` + string(content) + `}`
	if err := obj.UnmarshalJSON([]byte(whole)); err != nil {
		t.Fatalf("parsing %s: %v", whole, err)
	}
	return obj
}

func runSpecCases(t *testing.T, apiVersion, kind string, cases []specCase) {
	t.Helper()
	s := newServer(t)
	for _, c := range cases {
		t.Run(kind+"/"+c.name, func(t *testing.T) {
			_, err := s.create(withSpec(t, apiVersion, kind, c.spec))
			check(t, err, c.want)
		})
	}
}

func check(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && err == nil:
		t.Errorf("accepted, want an error with %q", want)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("error %q, want one with %q", err, want)
	}
}

package crd_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// stricter are the recorded cases of which an Antrea Controller accepts an object that we refuse, and why.
var stricter = map[string]string{
	"v10-fqdn-ingress":     "fqdn in an ingress rule is dropped there, which leaves a peer that says nothing",
	"v13-invalid-selector": "an operator In without values can match nothing",
	"v22-port-string-bad":  "port 70000 does not exist",
}

// later are the recorded cases that the schemas let pass and the webhooks refuse, and why.
var later = map[string]string{"v11-duplicate-rule-names": "comparing each name with each costs more than kube-apiserver spends on one object"}

// The schemas refuse exactly what the admission of a real Antrea Controller refused, save the cases in stricter and later.
func TestRecordedAdmission(t *testing.T) {
	s := newServer(t)
	dirs, err := filepath.Glob("../../../testdata/conformance/policy/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("recorded cases: %v, %v", dirs, err)
	}
	for _, dir := range dirs {
		name := filepath.Base(dir)
		refused := recordedRefusals(t, filepath.Join(dir, "expected.json"))
		differs := false
		input, err := os.ReadFile(filepath.Join(dir, "input.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, obj := range parse(t, string(input)) {
			if s.kinds[obj.GroupVersionKind()] == nil {
				continue
			}
			key := [3]string{obj.GetKind(), obj.GetNamespace(), obj.GetName()}
			_, err := s.create(obj)
			switch {
			case err == nil && refused[key] && later[name] != "":
			case err == nil && refused[key]:
				t.Errorf("%s: %v is accepted", name, key)
			case err != nil && !refused[key] && stricter[name] == "":
				t.Errorf("%s: %v is refused: %v", name, key, err)
			case err != nil && !refused[key]:
				differs = true
			}
		}
		if stricter[name] != "" && !differs {
			t.Errorf("%s is listed as stricter, but there is no difference", name)
		}
	}
}

func recordedRefusals(t *testing.T, path string) map[[3]string]bool {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var expected struct {
		Rejected []struct{ Kind, Namespace, Name string }
	}
	if err := json.Unmarshal(content, &expected); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	out := map[[3]string]bool{}
	for _, r := range expected.Rejected {
		out[[3]string{r.Kind, r.Namespace, r.Name}] = true
	}
	return out
}

package history

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/nephele/v1alpha1"
)

// pageRevision is a revision of web/test/proofs.json, and what is to be said of its proof.
type pageRevision struct {
	What     string
	Metadata struct {
		Namespace string `json:"namespace,omitempty"`
		Name      string `json:"name"`
	} `json:"metadata"`
	Spec     v1alpha1.RevisionSpec `json:"spec"`
	Unproven string                `json:"unproven"`
}

// TestProofsOfThePage: the page of the console and the commands say the same of the revisions in
// web/test/proofs.json, which the tests of the page read, too.
func TestProofsOfThePage(t *testing.T) {
	raw, err := os.ReadFile("../../web/test/proofs.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Keys      string
		Revisions []pageRevision
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	n := newNotary(t)
	published := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: PublishedConfigMap}, Data: map[string]string{publishedEntry: file.Keys}}
	if err := n.client.Create(t.Context(), &published); err != nil {
		t.Fatal(err)
	}
	proven := 0
	for _, x := range file.Revisions {
		r := &Revision{Name: strings.TrimPrefix(x.Metadata.Namespace+"/"+x.Metadata.Name, "/"), Spec: x.Spec}
		if got := n.check(r); got != x.Unproven {
			t.Errorf("%s: %q, want %q", x.What, got, x.Unproven)
		}
		if x.Unproven == "" {
			proven++
		}
	}
	if proven < 5 || len(file.Revisions)-proven < 5 {
		t.Errorf("%d of %d are proven", proven, len(file.Revisions))
	}
}

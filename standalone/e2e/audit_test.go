package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/audit"
	"github.com/nephele-io/nephele/internal/sim/ec2"
)

// auditLine is what the test reads of a line of the record of changes; docs/audit.md describes the
// fields.
type auditLine struct {
	Phase     string   `json:"phase"`
	ID        string   `json:"id"`
	Account   string   `json:"account"`
	Cluster   string   `json:"cluster"`
	Region    string   `json:"region"`
	Call      string   `json:"call"`
	Objects   []string `json:"objects"`
	Reason    string   `json:"reason"`
	By        []string `json:"by"`
	Outcome   string   `json:"outcome"`
	RequestID string   `json:"requestId"`
}

// readAudit reads the record of a data directory.
func readAudit(t *testing.T, dir string) (lines []auditLine) {
	t.Helper()
	name := filepath.Join(dir, "logs", "audit.log")
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s has the mode %v, %v", name, info.Mode(), err)
	}
	var verifier audit.Verifier
	if err := verifier.Files(name); err != nil {
		t.Fatal(err)
	}
	if e := verifier.Verify(); len(e.Faults) > 0 {
		t.Errorf("the record does not hold: %q", e.Faults)
	}
	torn := 0
	for s := bufio.NewScanner(f); s.Scan(); {
		var l auditLine
		if err := json.Unmarshal(s.Bytes(), &l); err != nil {
			torn++
			continue
		}
		if lines = append(lines, l); l.ID == "" || l.Account == "" || l.Cluster == "" || l.Region == "" || l.Call == "" || l.Reason == "" || len(l.Objects) == 0 || len(l.By) == 0 {
			t.Errorf("a line says too little: %s", s.Text())
		}
	}
	if torn > *killRounds {
		t.Errorf("%d lines of the record cannot be read", torn)
	}
	return lines
}

// beats reports whether a call does nothing but write the mark of a running instance.
func beats(c ec2.Call) bool {
	return c.Action == "CreateTags" && c.Params["Tag.1.Key"] == cloud.TagInstance && c.Params["Tag.2.Key"] == ""
}

// mustBeAudited compares the record with what the cloud has seen: every call that changed something
// has a line with what became of it, or, if the process was killed before it knew, a line that says
// that it was sent.
func mustBeAudited(t *testing.T, dir string, calls []ec2.Call) {
	t.Helper()
	answered, open := map[string]auditLine{}, map[string]auditLine{}
	for _, l := range readAudit(t, dir) {
		switch {
		case l.Phase == "begin":
			open[l.ID] = l
		case l.RequestID != "":
			answered[l.RequestID] = l
			delete(open, l.ID)
		}
	}
	lost := 0
	for _, c := range calls {
		if l, ok := answered[c.RequestID()]; ok {
			if l.Call != c.Action || (l.Outcome == "ok") != (c.Code == "") {
				t.Errorf("the cloud has seen %s with code %q, the record says %+v", c.Action, c.Code, l)
			}
			continue
		}
		if beats(c) { // of these only the first, those that end otherwise, and counts have lines
			continue
		}
		lost++
		params := slices.Collect(maps.Values(c.Params))
		found := ""
		for id, l := range open {
			if l.Call == c.Action && slices.Contains(params, strings.Split(l.Objects[0], "/")[0]) {
				found = id
			}
		}
		if found == "" {
			t.Errorf("the record lacks %s of %v", c.Action, c.Params)
		}
		delete(open, found)
	}
	t.Logf("%d calls changed something; of %d the process never learned", len(calls), lost)
}

// keyed sees to it that the controller has put the keys of records and of the history into the
// Secrets that the manifest makes, and that applying the manifest again leaves them there.
func (x *existing) keyed() {
	x.t.Helper()
	for _, name := range []string{"nephele-record-key", "nephele-history-key"} {
		get := func() map[string][]byte {
			s, err := x.kube.CoreV1().Secrets("kube-system").Get(x.t.Context(), name, metav1.GetOptions{})
			x.must(err)
			return s.Data
		}
		before := get()
		if len(before) == 0 {
			x.t.Errorf("the Secret %s holds no key", name)
		}
		i := slices.IndexFunc(x.objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Secret" && o.GetName() == name })
		raw, err := x.objects[i].MarshalJSON()
		x.must(err)
		_, err = x.kube.CoreV1().Secrets("kube-system").Patch(x.t.Context(), name, types.ApplyPatchType, raw, metav1.PatchOptions{FieldManager: "kubectl"})
		x.must(err)
		if after := get(); !maps.EqualFunc(before, after, bytes.Equal) {
			x.t.Errorf("applying the manifest again has changed the Secret %s", name)
		}
	}
}

// changesTold waits for the event that tells what was changed in the account of a namespace.
func (x *existing) changesTold(namespace string) {
	x.t.Helper()
	eventually(x.t, "the changes are told", func(ctx context.Context) (bool, string) {
		list, err := x.kube.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		var notes []string
		for _, e := range list.Items {
			notes = append(notes, e.Reason+" "+e.Note)
			if e.Reason == "Changed" && e.Regarding.Kind == "CloudProviderAccount" && strings.Contains(e.Note, "interfaces edited") {
				return true, ""
			}
		}
		return false, strings.Join(notes, "; ")
	})
}

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/internal/policy/policytest"
	"github.com/nephele-io/nephele/internal/tier"
)

// TestWatchScriptLive replays the recorded watch script through a real API server, its schemas and
// our webhooks, and holds what the watches of the served API deliver in every step against what was
// recorded. We mean to depart from it in no step.
func TestWatchScriptLive(t *testing.T) {
	t.Parallel()
	tier.OnlyLong(t, "TestWatchScript (internal/control), TestBytesOfAWatch (internal/apiserver), and the sample of TestRecordedCasesLive")
	s, err := policytest.ReadScript(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	r := newReplay(t, newCluster(t))
	var setup []*unstructured.Unstructured
	for _, o := range s.Setup {
		setup = append(setup, &unstructured.Unstructured{Object: o})
	}
	r.create(t, setup)
	watches := map[string]*scriptedWatch{}
	for _, name := range slices.Sorted(maps.Keys(s.Watches)) {
		watches[name] = r.openScripted(t, name)
	}
	for _, step := range append([]string{"initial"}, s.Steps...) {
		if step != "initial" {
			r.scriptStep(t, step)
		}
		for name, w := range watches {
			for _, e := range s.Watches[name] {
				if e.Step == step {
					w.take(t, step)
				}
			}
		}
	}
	// What is sent to nobody in a step would come before the policy that concerns everybody now.
	r.scriptStep(t, "end")
	for _, name := range slices.Sorted(maps.Keys(watches)) {
		if e := watches[name].take(t, "end"); e.Type != "ADDED" {
			t.Errorf("%s gets an event that was not recorded: %s %v", name, e.Type, e.Object)
		}
		if diff := cmp.Diff(s.Watches[name], watches[name].got[:len(s.Watches[name])]); diff != "" {
			t.Errorf("%s (-recorded +got):\n%s", name, diff)
		}
	}
}

// scriptedWatch is one watch of the script.
type scriptedWatch struct {
	name   string
	events chan policytest.ScriptEvent
	got    []policytest.ScriptEvent
}

// openScripted opens the watch of a name, which is KEY/RESOURCE.
func (r *replay) openScripted(t *testing.T, name string) *scriptedWatch {
	t.Helper()
	i := strings.LastIndex(name, "/")
	stream, err := r.api.Get().AbsPath(computedPath+name[i+1:]).Param("watch", "true").Param("fieldSelector", "nodeName="+name[:i]).
		SetHeader("Accept", "application/json").Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := &scriptedWatch{name: name, events: make(chan policytest.ScriptEvent, 100)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(w.events)
		for decoder := json.NewDecoder(stream); ; {
			var e policytest.ScriptEvent
			if decoder.Decode(&e) != nil {
				return
			}
			w.events <- e
		}
	}()
	t.Cleanup(func() {
		stream.Close()
		<-done
	})
	return w
}

// take takes the next event of a watch, which a step brings.
func (w *scriptedWatch) take(t *testing.T, step string) policytest.ScriptEvent {
	t.Helper()
	select {
	case e, ok := <-w.events:
		if !ok {
			t.Fatalf("%s: %s: the watch has ended after %v", w.name, step, w.got)
		}
		e.Step, e.Object = step, scriptedForm(e.Object)
		w.got = append(w.got, e)
		return e
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: %s: no event after 20 s, so far %v", w.name, step, w.got)
	}
	return policytest.ScriptEvent{}
}

// scriptedForm puts an object into the form of the recording: addresses as text, no metadata but
// the name of groups, no uid in sourceRef.
func scriptedForm(o map[string]any) map[string]any {
	o = textAddresses(o).(map[string]any)
	delete(o, "apiVersion")
	metadata := map[string]any{}
	if name, ok := o["metadata"].(map[string]any)["name"]; ok {
		metadata["name"] = name
	}
	o["metadata"] = metadata
	if o["kind"] == "NetworkPolicy" {
		delete(o, "metadata")
	}
	if ref, ok := o["sourceRef"].(map[string]any); ok {
		delete(ref, "uid")
	}
	return o
}

// scriptStep does what a step of the script is called; "end" is one of ours.
func (r *replay) scriptStep(t *testing.T, step string) {
	t.Helper()
	entity := func(name, role, ip, host string) string {
		return fmt.Sprintf(`
apiVersion: crd.antrea.io/v1alpha2
kind: ExternalEntity
metadata: {namespace: vms, name: %s, labels: {role: %s}}
spec: {externalNode: %s, endpoints: [{ip: %s}]}`, name, role, host, ip)
	}
	policy := func(priority int, more string) string {
		return fmt.Sprintf(`
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: vms, name: p}
spec:
  priority: %d
  appliedTo: [{externalEntitySelector: {matchLabels: {role: db}}}]
  ingress:
  - name: r
    action: Allow
    from:
    - externalEntitySelector: {matchLabels: {role: web}}
%s
    ports: [{protocol: TCP, port: 5432}]`, priority, more)
	}
	switch step {
	case "create policy":
		r.createText(t, policy(1, ""))
	case "add peer member web2":
		r.createText(t, entity("web2", "web", "10.0.1.2", "cloud-a"))
	case "change peer ip":
		r.updateText(t, entity("web2", "web", "10.0.1.22", "cloud-a"))
	case "add applied member on cloud-a":
		r.createText(t, entity("db3", "db", "10.0.2.3", "cloud-a"))
	case "relabel db3 out":
		r.updateText(t, entity("db3", "other", "10.0.2.3", "cloud-a"))
	case "relabel web2 out":
		r.updateText(t, entity("web2", "other", "10.0.1.22", "cloud-a"))
	case "add pod peer to policy":
		r.updateText(t, policy(2, "    - podSelector: {matchLabels: {role: client}}\n      namespaceSelector: {}"))
	case "move last cloud-b member away":
		r.updateText(t, entity("db2", "db", "10.0.2.2", "cloud-a"))
	case "move back":
		r.updateText(t, entity("db2", "db", "10.0.2.2", "cloud-b"))
	case "delete web1":
		r.must(t, r.client.Delete(t.Context(), fromText(t, entity("web1", "web", "10.0.1.1", "cloud-a"))))
	case "delete policy":
		r.must(t, r.client.Delete(t.Context(), fromText(t, policy(2, ""))))
	case "end":
		r.createText(t, `
apiVersion: crd.antrea.io/v1beta1
kind: ClusterNetworkPolicy
metadata: {name: end}
spec:
  priority: 1
  appliedTo: [{externalEntitySelector: {matchLabels: {role: db}}}, {podSelector: {matchLabels: {role: client}}}]
  ingress: [{action: Drop, from: [{podSelector: {}}]}]`)
	default:
		t.Fatalf("no step %q", step)
	}
}

func fromText(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return o
}

func (r *replay) createText(t *testing.T, text string) {
	t.Helper()
	r.must(t, r.client.Create(t.Context(), fromText(t, text)))
}

// updateText replaces an object by another form of it.
func (r *replay) updateText(t *testing.T, text string) {
	t.Helper()
	next := fromText(t, text)
	now := next.DeepCopy()
	edit(t, r.client, now, func() {
		version := now.GetResourceVersion()
		now.Object = next.DeepCopy().Object
		now.SetResourceVersion(version)
	})
}

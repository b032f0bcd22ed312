package control

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/policy/policytest"
)

// TestWatchScript replays a recorded script: every watcher gets the same events in the same steps.
func TestWatchScript(t *testing.T) { watchScript(t, (*testWorld).round) }

// TestWatchScriptHealing: the same with an engine that begins anew in each step.
func TestWatchScriptHealing(t *testing.T) {
	watchScript(t, func(w *testWorld) {
		w.absorb()
		if err := w.heal(errors.New("odd")); err != nil {
			w.t.Fatal(err)
		}
	})
}

func watchScript(t *testing.T, round func(*testWorld)) {
	s, err := policytest.ReadScript(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	w := newTestWorld(t)
	for _, o := range s.Setup {
		w.createDecoded(o)
	}
	w.round()
	watchers := map[string]*watchstore.Watcher{}
	got := map[string][]policytest.ScriptEvent{}
	for name := range s.Watches {
		i := strings.LastIndex(name, "/")
		watcher, err := w.Store().Watch(watchstore.Resource(name[i+1:]), name[:i])
		if err != nil {
			t.Fatal(err)
		}
		defer watcher.Stop()
		watchers[name] = watcher
	}
	collect := func(step string) {
		for name, watcher := range watchers {
			for {
				ev, ok, err := watcher.TryNext()
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				got[name] = append(got[name], policytest.ScriptEvent{Step: step, Type: string(ev.Type), Object: recordedForm(t, ev)})
			}
		}
	}
	collect("initial")
	for _, step := range s.Steps {
		scriptStep(t, w, step)
		round(w)
		collect(step)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Watches)) {
		if diff := cmp.Diff(s.Watches[name], got[name]); diff != "" {
			t.Errorf("%s (-recorded +got):\n%s", name, diff)
		}
	}
}

// scriptStep does what a step of the script is called.
func scriptStep(t *testing.T, w *testWorld, step string) {
	entity := func(name, role, ip, host string) *v1alpha2.ExternalEntity {
		return decode[v1alpha2.ExternalEntity](t, fmt.Sprintf(`
metadata: {namespace: vms, name: %s, labels: {role: %s}}
spec: {externalNode: %s, endpoints: [{ip: %s}]}`, name, role, host, ip))
	}
	policy := func(priority int, more string) *v1beta1.NetworkPolicy {
		return decode[v1beta1.NetworkPolicy](t, fmt.Sprintf(`
metadata: {namespace: vms, name: p, uid: uid-p, generation: %d}
spec:
  priority: %d
  appliedTo: [{externalEntitySelector: {matchLabels: {role: db}}}]
  ingress:
  - name: r
    action: Allow
    from:
    - externalEntitySelector: {matchLabels: {role: web}}
%s
    ports: [{protocol: TCP, port: 5432}]`, priority, priority, more))
	}
	switch step {
	case "create policy":
		w.put(policy(1, ""))
	case "add peer member web2":
		w.put(entity("web2", "web", "10.0.1.2", "cloud-a"))
	case "change peer ip":
		w.put(entity("web2", "web", "10.0.1.22", "cloud-a"))
	case "add applied member on cloud-a":
		w.put(entity("db3", "db", "10.0.2.3", "cloud-a"))
	case "relabel db3 out":
		w.put(entity("db3", "other", "10.0.2.3", "cloud-a"))
	case "relabel web2 out":
		w.put(entity("web2", "other", "10.0.1.22", "cloud-a"))
	case "add pod peer to policy":
		w.put(policy(2, "    - podSelector: {matchLabels: {role: client}}\n      namespaceSelector: {}"))
	case "move last cloud-b member away":
		w.put(entity("db2", "db", "10.0.2.2", "cloud-a"))
	case "move back":
		w.put(entity("db2", "db", "10.0.2.2", "cloud-b"))
	case "delete web1":
		w.remove(entity("web1", "web", "10.0.1.1", "cloud-a"))
	case "delete policy":
		w.remove(policy(2, ""))
	default:
		t.Fatalf("no step %q", step)
	}
}

// recordedForm puts an event's object into the form of the recording: addresses as text, no
// metadata but the name of groups, no uid in sourceRef.
func recordedForm(t *testing.T, ev watch.Event) map[string]any {
	raw, err := json.Marshal(ev.Object)
	if err != nil {
		t.Fatal(err)
	}
	var o map[string]any
	if err := json.Unmarshal(raw, &o); err != nil {
		t.Fatal(err)
	}
	name := o["metadata"].(map[string]any)["name"]
	o["kind"] = fmt.Sprintf("%T", ev.Object)[len("*v1beta2."):]
	delete(o, "metadata")
	if o["kind"] != "NetworkPolicy" {
		o["metadata"] = map[string]any{}
		if name != nil {
			o["metadata"] = map[string]any{"name": name}
		}
	}
	if ref, ok := o["sourceRef"].(map[string]any); ok {
		delete(ref, "uid")
	}
	return textAddresses(t, o).(map[string]any)
}

func textAddresses(t *testing.T, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if key == "ips" {
				for i, ip := range value.([]any) {
					b, err := base64.StdEncoding.DecodeString(ip.(string))
					a, ok := netip.AddrFromSlice(b)
					if err != nil || !ok {
						t.Fatalf("address %v: %v", ip, err)
					}
					value.([]any)[i] = a.Unmap().String()
				}
				continue
			}
			v[key] = textAddresses(t, value)
		}
	case []any:
		for i := range v {
			v[i] = textAddresses(t, v[i])
		}
	}
	return v
}

// decode reads YAML.
func decode[T any](t *testing.T, text string) *T {
	t.Helper()
	out := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return out
}

// createDecoded puts an object of a script.
func (w *testWorld) createDecoded(o map[string]any) {
	w.t.Helper()
	var into runtime.Object
	switch o["kind"] {
	case "Namespace":
		into = &corev1.Namespace{}
	case "Node":
		into = &corev1.Node{}
	case "Pod":
		into = &corev1.Pod{}
	case "ExternalEntity":
		into = &v1alpha2.ExternalEntity{}
	default:
		w.t.Fatalf("no kind %v", o["kind"])
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o, into); err != nil {
		w.t.Fatal(err)
	}
	w.putObject(into)
}

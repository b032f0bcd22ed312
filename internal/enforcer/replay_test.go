package enforcer_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/policy/policytest"
)

// recorded is the script that was recorded from an Antrea Controller, and after it more of what one
// sends.
func recorded(t *testing.T) policytest.Script {
	t.Helper()
	s, err := policytest.ReadScript(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	var more policytest.Script
	if err := json.Unmarshal([]byte(further), &more); err != nil {
		t.Fatal(err)
	}
	s.Steps = append(s.Steps, more.Steps...)
	for key, events := range more.Watches {
		s.Watches[key] = append(s.Watches[key], events...)
	}
	return s
}

// further has a group named after a Group, a Kubernetes NetworkPolicy (which has no tier and no
// priority, and whose default has no action), members that are Nodes and a Service, and named ports
// that change in place.
const further = `{
"steps": ["a policy of Kubernetes", "named ports change", "members of all kinds", "the group goes"],
"watches": {
 "cloud-a/addressgroups": [
  {"step": "a policy of Kubernetes", "type": "ADDED", "object": {"kind": "AddressGroup", "metadata": {"name": "vms/clients", "uid": "uid-of-the-group"},
   "groupMembers": [{"pod": {"namespace": "app", "name": "c1"}, "ips": ["10.244.1.1", "fd00::1"], "ports": [{"name": "web", "port": 80, "protocol": "TCP"}]}]}},
  {"step": "named ports change", "type": "MODIFIED", "object": {"kind": "AddressGroupPatch", "metadata": {"name": "vms/clients"},
   "addedGroupMembers": [{"pod": {"namespace": "app", "name": "c1"}, "ips": ["10.244.1.1", "fd00::1"], "ports": [{"name": "web", "port": 8080, "protocol": "TCP"}]}]}},
  {"step": "members of all kinds", "type": "MODIFIED", "object": {"kind": "AddressGroupPatch", "metadata": {"name": "vms/clients"},
   "addedGroupMembers": [{"node": {"name": "n1"}, "ips": ["192.168.0.1"]}, {"externalEntity": {"namespace": "vms", "name": "x"}, "ips": ["10.0.0.9", "10.0.0.8"]}]}},
  {"step": "the group goes", "type": "DELETED", "object": {"kind": "AddressGroup", "metadata": {"name": "vms/clients", "uid": "uid-of-the-group"}}}
 ],
 "cloud-a/appliedtogroups": [
  {"step": "a policy of Kubernetes", "type": "ADDED", "object": {"kind": "AppliedToGroup", "metadata": {"name": "vms/servers"}, "groupMembers": [{"externalEntity": {"namespace": "vms", "name": "db1"}}]}},
  {"step": "members of all kinds", "type": "MODIFIED", "object": {"kind": "AppliedToGroupPatch", "metadata": {"name": "vms/servers"}, "addedGroupMembers": [{"service": {"namespace": "vms", "name": "s"}}],
   "removedGroupMembers": [{"externalEntity": {"namespace": "vms", "name": "db1"}}]}},
  {"step": "the group goes", "type": "DELETED", "object": {"kind": "AppliedToGroup", "metadata": {"name": "vms/servers"}}}
 ],
 "cloud-a/networkpolicies": [
  {"step": "a policy of Kubernetes", "type": "ADDED", "object": {"kind": "NetworkPolicy", "appliedToGroups": ["vms/servers"], "rules": [
   {"direction": "In", "action": "Allow", "priority": -1, "from": {"addressGroups": ["vms/clients"]}, "to": {}, "enableLogging": false},
   {"direction": "Out", "priority": 0, "from": {}, "to": {}, "enableLogging": false}],
   "sourceRef": {"type": "K8sNetworkPolicy", "namespace": "vms", "name": "k"}}},
  {"step": "the group goes", "type": "DELETED", "object": {"kind": "NetworkPolicy", "sourceRef": {"type": "K8sNetworkPolicy", "namespace": "vms", "name": "k"}}}
 ]}}`

// typed makes the object of an event; addresses in the script are text.
func typed(t *testing.T, e policytest.ScriptEvent) runtime.Object {
	t.Helper()
	onWire, err := json.Marshal(addressBytes(e.Object))
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]runtime.Object{
		"NetworkPolicy": &v1beta2.NetworkPolicy{}, "AddressGroup": &v1beta2.AddressGroup{}, "AddressGroupPatch": &v1beta2.AddressGroupPatch{},
		"AppliedToGroup": &v1beta2.AppliedToGroup{}, "AppliedToGroupPatch": &v1beta2.AppliedToGroupPatch{},
	}
	o := kinds[e.Object["kind"].(string)]
	if err := json.Unmarshal(onWire, o); err != nil {
		t.Fatal(err)
	}
	if p, ok := o.(*v1beta2.NetworkPolicy); ok && p.SourceRef != nil {
		p.UID = types.UID("uid-" + p.SourceRef.Name)
		p.Name, p.SourceRef.UID = string(p.UID), p.UID
	}
	return o
}

func addressBytes(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, value := range v {
			out[name] = addressBytes(value)
			if name == "ips" {
				var ips []any
				for _, text := range value.([]any) {
					ips = append(ips, base64.StdEncoding.EncodeToString(net.ParseIP(text.(string)).To16()))
				}
				out[name] = ips
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = addressBytes(v[i])
		}
		return out
	}
	return v
}

// printed is a set of objects as text, without order and revisions.
func printed[T any](t *testing.T, objects []T) []string {
	t.Helper()
	lines := []string{}
	for _, o := range objects {
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(raw, &fields); err != nil {
			t.Fatal(err)
		}
		delete(fields["metadata"].(map[string]any), "resourceVersion")
		delete(fields, "kind")
		delete(fields, "apiVersion")
		if members, ok := fields["groupMembers"].([]any); ok {
			var sorted []string
			for _, m := range members {
				line, err := json.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				sorted = append(sorted, string(line))
			}
			slices.Sort(sorted)
			fields["groupMembers"] = sorted
		}
		line, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
	slices.Sort(lines)
	return lines
}

// behind says how a mirror differs from what the stand-in lists.
func (a *antrea) behind(m *enforcer.Mirror) error {
	known := m.Known()
	a.mu.Lock()
	defer a.mu.Unlock()
	got := [][]string{printed(a.t, known.Policies), printed(a.t, known.AddressGroups), printed(a.t, known.AppliedToGroups)}
	var want [][]string
	for _, r := range enforcer.Resources() {
		want = append(want, printed(a.t, a.books[m.Key()+"/"+string(r)]))
	}
	if d := cmp.Diff(want, got); d != "" {
		return fmt.Errorf("the mirror of %s differs (-listed +mirrored):\n%s", m.Key(), d)
	}
	return nil
}

// follower follows the stand-in without waiting long.
func (a *antrea) follower() enforcer.Follower {
	return enforcer.Follower{Source: a.client(enforcer.ClientOptions{}), Clock: clock.RealClock{}, Interval: 5 * time.Millisecond, Pack: true, Log: logr.Discard()}
}

// TestMirrorFollowsAntrea: after each step of the script every mirror is what the controller lists,
// also when the step was followed by the end of the watches, or by what a watch has to be given up
// for.
func TestMirrorFollowsAntrea(t *testing.T) {
	t.Parallel()
	stray := &v1beta2.AddressGroupPatch{}
	stray.Name = "never-added"
	for name, disturb := range map[string]func(a *antrea, key string){
		"in peace":                 func(*antrea, string) {},
		"with ends of watches":     func(a *antrea, _ string) { a.disconnect() },
		"with lost connections":    func(a *antrea, _ string) { a.server.CloseClientConnections() },
		"with second bookmarks":    func(a *antrea, key string) { a.send(key, "addressgroups", "BOOKMARK", &v1beta2.AddressGroup{}) },
		"with errors":              func(a *antrea, key string) { a.send(key, "networkpolicies", "ERROR", &v1beta2.NetworkPolicy{}) },
		"with unknown types":       func(a *antrea, key string) { a.send(key, "appliedtogroups", "RENAMED", &v1beta2.AppliedToGroup{}) },
		"with patches of nothing":  func(a *antrea, key string) { a.send(key, "addressgroups", "MODIFIED", stray) },
		"with patches out of line": func(a *antrea, key string) { a.send(key, "appliedtogroups", "MODIFIED", stray) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAntrea(t)
			s := recorded(t)
			mirrors := map[string]*enforcer.Mirror{}
			for at := range s.Watches {
				key := at[:strings.LastIndex(at, "/")]
				if mirrors[key] == nil {
					mirrors[key] = a.follower().Mirror(key, nil)
					run(t, mirrors[key])
				}
			}
			for _, step := range append([]string{"initial"}, s.Steps...) {
				for _, at := range slices.Sorted(maps.Keys(s.Watches)) {
					i := strings.LastIndex(at, "/")
					for _, e := range s.Watches[at] {
						if e.Step == step && e.Type != "BOOKMARK" {
							a.change(at[:i], at[i+1:], e.Type, typed(t, e))
						}
					}
				}
				for key, m := range mirrors {
					eventually(t, step, func() error { return a.behind(m) })
					disturb(a, key)
					eventually(t, step+", disturbed", func() error { return a.behind(m) })
					eventually(t, step+", complete", func() error { _, _, err := m.Current(); return err })
				}
			}
			if begun := a.begun(); name == "in peace" && begun != 3*len(mirrors) {
				t.Errorf("%d watches were begun, want one for each of %d mirrors and 3 resources: the recorded events are in order", begun, len(mirrors))
			} else if name != "in peace" && begun < 3*len(mirrors)+len(s.Steps) {
				t.Errorf("%d watches were begun, want more: a watch that is out of step is given up", begun)
			}
		})
	}
}

// TestRequestsAreThoseOfAnAgent compares with the requests of an Antrea Agent.
func TestRequestsAreThoseOfAnAgent(t *testing.T) {
	t.Parallel()
	a := newAntrea(t)
	m := a.follower().Mirror("cloud/ns/shop", nil)
	run(t, m)
	eventually(t, "complete", func() error { _, _, err := m.Current(); return err })
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.queries {
		if a.queries[i] != "fieldSelector=nodeName%3Dcloud%2Fns%2Fshop&watch=true" || a.accepts[i] != "application/vnd.kubernetes.protobuf, */*" {
			t.Errorf("watch with %q, Accept %q", a.queries[i], a.accepts[i])
		}
	}
}

// TestNothingIsLostWithoutServer: the last state stays in force while nobody answers, and the state
// of streams says so.
func TestNothingIsLostWithoutServer(t *testing.T) {
	t.Parallel()
	a := newAntrea(t)
	group := &v1beta2.AddressGroup{}
	group.Name = "g"
	a.change("k", "addressgroups", "ADDED", group)
	m := a.follower().Mirror("k", nil)
	run(t, m)
	eventually(t, "complete", func() error { _, _, err := m.Current(); return err })
	a.server.Listener.Close()
	a.disconnect()
	a.server.CloseClientConnections()
	eventually(t, "unreachable", func() error {
		for _, s := range m.Streams() {
			if s.InSync || s.Err == nil || !s.Known || s.Begun < 3 {
				return fmt.Errorf("%+v", s)
			}
		}
		return nil
	})
	if got, _, err := m.Current(); err != nil || len(got.AddressGroups) != 1 {
		t.Errorf("got %v, %v; want the group that was known", got, err)
	}
}

// run runs a mirror until the test ends.
func run(t *testing.T, m *enforcer.Mirror) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Run(t.Context())
	}()
	t.Cleanup(func() { <-done })
}

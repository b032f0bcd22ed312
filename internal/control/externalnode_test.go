package control

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
)

// entities lists the ExternalEntities as "name -> external node, addresses".
func (w *testWorld) entities() []string {
	w.t.Helper()
	var list v1alpha2.ExternalEntityList
	if err := w.api.List(w.t.Context(), &list); err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, x := range list.Items {
		s := x.Name + " -> " + x.Spec.ExternalNode
		for _, e := range x.Spec.Endpoints {
			s += " " + e.Name + "=" + e.IP
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}

func TestExternalNodesBecomeEntities(t *testing.T) {
	w := newTestWorld(t)
	node := func(nic, ip string) *v1alpha1.ExternalNode {
		return decode[v1alpha1.ExternalNode](t, `
metadata: {namespace: vms, name: host, uid: uid-host, labels: {role: db}}
spec: {interfaces: [{name: "`+nic+`", ips: [`+ip+`]}]}`)
	}
	want := func(step string, want ...string) {
		t.Helper()
		w.settle()
		if diff := cmp.Diff(want, w.entities()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step, diff)
		}
	}
	foreign := vm(t, "own", "x", "cloud-a")
	w.put(foreign)
	stale := vm(t, "stale", "x", "gone")
	stale.OwnerReferences = decode[v1alpha2.ExternalEntity](t, `
metadata: {ownerReferences: [{apiVersion: crd.antrea.io/v1alpha1, kind: ExternalNode, name: gone, uid: u}]}`).OwnerReferences
	w.put(stale)
	w.put(node("", "10.0.0.9"))
	want("created; what a deleted node left is removed", "host -> host =10.0.0.9", "own -> cloud-a =10.0.0.1")
	w.put(node("", "10.0.0.10"))
	want("changed", "host -> host =10.0.0.10", "own -> cloud-a =10.0.0.1")
	w.put(node("eth0", "10.0.0.10"))
	want("interface named", "host-3e616 -> host eth0=10.0.0.10", "own -> cloud-a =10.0.0.1")
	w.remove(node("eth0", "10.0.0.10"))
	want("deleted", "own -> cloud-a =10.0.0.1")

	w.put(decode[v1alpha1.ExternalNode](t, `
metadata: {namespace: vms, name: own, uid: uid-own}
spec: {interfaces: [{ips: [10.9.9.9]}]}`))
	want("an entity of that name that somebody else made is left alone", "own -> cloud-a =10.0.0.1")
	told := func(step string, n int, want string) {
		t.Helper()
		w.settle()
		w.events.mu.Lock()
		defer w.events.mu.Unlock()
		var got []string
		for _, e := range w.events.list {
			if strings.HasPrefix(e, "Warning EntityNotMade: ") {
				got = append(got, e)
			}
		}
		if len(got) != n || !strings.HasSuffix(got[n-1], want) {
			t.Errorf("%s: %q, want %d, the last one %q", step, got, n, want)
		}
	}
	told("entity of nobody", 1, "the ExternalEntity own is there already and belongs to no ExternalNode; rename or delete one of the two")
	w.put(vm(t, "another", "x", "cloud-a"))
	told("told once", 1, "")
	w.put(node("eth0", "10.0.0.10"))
	w.settle()
	w.put(decode[v1alpha1.ExternalNode](t, `
metadata: {namespace: vms, name: host-3e616, uid: uid-clash}
spec: {interfaces: [{ips: [10.9.9.8]}]}`))
	told("two ExternalNodes", 2, "the ExternalEntity host-3e616 stands for ExternalNode host; rename or delete one of the two")
	w.remove(foreign)
	want("once the name is free it is made", "another -> cloud-a =10.0.0.1", "host-3e616 -> host eth0=10.0.0.10", "own -> own =10.9.9.9")
}

// TestEntitiesGoWithoutASearch: nobody looks through a Namespace when an entity goes, unless there
// is an ExternalNode that may want its name.
func TestEntitiesGoWithoutASearch(t *testing.T) {
	w := newTestWorld(t)
	node := decode[v1alpha1.ExternalNode](t, `{metadata: {namespace: vms, name: host, uid: u}, spec: {interfaces: [{ips: [10.0.0.1]}]}}`)
	queued := func(change func()) int {
		w.settle()
		change()
		w.round()
		return w.tasks.Len()
	}
	w.put(vm(t, "a", "x", "cloud-a"))
	w.put(vm(t, "b", "x", "cloud-a"))
	if n := queued(func() { w.remove(vm(t, "a", "x", "cloud-a")) }); n != 0 {
		t.Errorf("%d tasks without any ExternalNode", n)
	}
	w.put(node)
	if n := queued(func() { w.remove(vm(t, "b", "x", "cloud-a")) }); n != 1 {
		t.Errorf("%d tasks, want that of the ExternalNodes", n)
	}
	w.settle()
	w.remove(node)
	w.settle()
	if len(w.externalNodes) != 0 || len(w.entities()) != 0 {
		t.Errorf("left: %v, %v", w.externalNodes, w.entities())
	}
}

package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// finalizeOptions are those for ending a Namespace.
var finalizeOptions = metav1.UpdateOptions{}

const computedPath = "/apis/controlplane.antrea.io/v1beta2/"

var computedResources = []string{"networkpolicies", "addressgroups", "appliedtogroups"}

// served lists the computed objects in the recorded form.
func (r *replay) served(ctx context.Context) (map[string]any, error) {
	out := map[string]any{}
	for _, resource := range computedResources {
		raw, err := r.api.Get().AbsPath(computedPath+resource).SetHeader("Accept", "application/json").Do(ctx).Raw()
		if err != nil {
			return nil, err
		}
		var list struct{ Items []any }
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, err
		}
		objects := []any{}
		for _, o := range list.Items {
			objects = append(objects, recordedForm(o.(map[string]any), resource == "networkpolicies"))
		}
		out[resource] = objects
	}
	return relevant(out), nil
}

// recordedForm has addresses as text, members in order and no metadata but the names of groups.
func recordedForm(o map[string]any, isPolicy bool) map[string]any {
	o = textAddresses(o).(map[string]any)
	delete(o, "kind")
	delete(o, "apiVersion")
	if isPolicy {
		delete(o, "metadata")
		delete(o["sourceRef"].(map[string]any), "uid")
		return o
	}
	o["metadata"] = map[string]any{"name": o["metadata"].(map[string]any)["name"]}
	members, _ := o["groupMembers"].([]any)
	sortByText(members)
	return o
}

// textAddresses writes the addresses in a value, which are bytes on the wire, as text; lists of
// them are sorted.
func textAddresses(v any) any {
	text := func(v any) any {
		b, err := base64.StdEncoding.DecodeString(v.(string))
		if a, ok := netip.AddrFromSlice(b); err == nil && ok {
			return a.Unmap().String()
		}
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			switch list, isList := value.([]any); {
			case key == "ips" && isList:
				for i := range list {
					list[i] = text(list[i])
				}
				sortByText(list)
			case key == "ip":
				v[key] = text(value)
			default:
				v[key] = textAddresses(value)
			}
		}
	case []any:
		for i := range v {
			v[i] = textAddresses(v[i])
		}
	}
	return v
}

func jsonText(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func sortByText(list []any) {
	slices.SortStableFunc(list, func(a, b any) int { return strings.Compare(jsonText(a), jsonText(b)) })
}

// relevant puts the objects, and the copies of a rule that differ in their Namespace only, in a
// definite order: the recorded one is that of a Go map.
func relevant(o map[string]any) map[string]any {
	out := map[string]any{}
	for _, resource := range computedResources {
		list, _ := o[resource].([]any)
		list = append([]any{}, list...)
		for _, p := range list {
			sortGroups(p)
			rules, _ := p.(map[string]any)["rules"].([]any)
			slices.SortStableFunc(rules, func(a, b any) int { return strings.Compare(ruleText(a), ruleText(b)) })
		}
		sortByText(list)
		out[resource] = list
	}
	return out
}

// sortGroups sorts the names of groups that a policy and its rules have. They are served in the
// order in which they are written; the recordings have them sorted.
func sortGroups(of any) {
	switch of := of.(type) {
	case []any:
		for _, x := range of {
			sortGroups(x)
		}
	case map[string]any:
		for key, x := range of {
			if names, ok := x.([]any); ok && (key == "addressGroups" || key == "appliedToGroups") {
				sortByText(names)
				continue
			}
			sortGroups(x)
		}
	}
}

func ruleText(rule any) string {
	r := rule.(map[string]any)
	priority, _ := r["priority"].(float64)
	return fmt.Sprintf("%v %08d %s", r["direction"], int(priority)+1, jsonText(rule))
}

// given is what one enforcer gets: policies by source, groups by name with the number of members.
type given struct {
	Policies        []string
	AddressGroups   []string
	AppliedToGroups map[string]int
}

// watched opens the three watches of an enforcer and reads what they begin with.
func (r *replay) watched(t *testing.T, key string) given {
	t.Helper()
	out := given{AppliedToGroups: map[string]int{}}
	for _, resource := range computedResources {
		for _, o := range r.initial(t, resource, key) {
			switch resource {
			case "networkpolicies":
				out.Policies = append(out.Policies, sourceText(o))
			case "addressgroups":
				out.AddressGroups = append(out.AddressGroups, nameOf(o))
			case "appliedtogroups":
				members, _ := o["groupMembers"].([]any)
				out.AppliedToGroups[nameOf(o)] = len(members)
			}
		}
	}
	slices.Sort(out.Policies)
	slices.Sort(out.AddressGroups)
	return out
}

// initial reads a watch up to the bookmark.
func (r *replay) initial(t *testing.T, resource, key string) []map[string]any {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := r.api.Get().AbsPath(computedPath+resource).Param("watch", "true").Param("fieldSelector", "nodeName="+key).
		SetHeader("Accept", "application/json").Stream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var out []map[string]any
	decoder := json.NewDecoder(stream)
	for {
		var event struct {
			Type   string
			Object map[string]any
		}
		if err := decoder.Decode(&event); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			t.Fatalf("watch %s of %s: %v", resource, key, err)
		}
		switch event.Type {
		case "ADDED":
			out = append(out, event.Object)
		case "BOOKMARK":
			return out
		default:
			t.Fatalf("watch %s of %s: %s before the bookmark", resource, key, event.Type)
		}
	}
}

func nameOf(o map[string]any) string { return o["metadata"].(map[string]any)["name"].(string) }

func sourceText(o map[string]any) string {
	ref := o["sourceRef"].(map[string]any)
	return fmt.Sprint(ref["type"], " ", ref["namespace"], " ", ref["name"])
}

// spanOf works out from the whole listing, and from where the entities of the input are, what an
// enforcer is concerned with.
func spanOf(key string, all map[string]any, input []*unstructured.Unstructured) given {
	hosts, nodes := map[string]string{}, map[string]bool{}
	for _, o := range input {
		id := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
		switch o.GetKind() {
		case "Pod":
			hosts[id], _, _ = unstructured.NestedString(o.Object, "spec", "nodeName")
		case "ExternalEntity":
			hosts[id], _, _ = unstructured.NestedString(o.Object, "spec", "externalNode")
		case "Node":
			nodes[o.GetName()] = true
		}
	}
	here := func(member map[string]any) bool {
		for field, kind := range map[string]string{"pod": "Pod", "externalEntity": "ExternalEntity"} {
			if ref, ok := member[field].(map[string]any); ok {
				return hosts[fmt.Sprint(kind, " ", ref["namespace"], "/", ref["name"])] == key
			}
		}
		if node, ok := member["node"].(map[string]any); ok {
			return node["name"] == key
		}
		return nodes[key]
	}
	out := given{AppliedToGroups: map[string]int{}}
	for _, g := range all["appliedtogroups"].([]any) {
		members, _ := g.(map[string]any)["groupMembers"].([]any)
		for _, m := range members {
			if here(m.(map[string]any)) {
				out.AppliedToGroups[nameOf(g.(map[string]any))]++
			}
		}
	}
	for _, p := range all["networkpolicies"].([]any) {
		p := p.(map[string]any)
		applied, peers := references(p)
		if !slices.ContainsFunc(applied, func(name string) bool { return out.AppliedToGroups[name] > 0 }) {
			continue
		}
		out.Policies = append(out.Policies, sourceText(p))
		out.AddressGroups = append(out.AddressGroups, peers...)
	}
	slices.Sort(out.Policies)
	slices.Sort(out.AddressGroups)
	out.AddressGroups = slices.Compact(out.AddressGroups)
	return out
}

// references are the groups that a computed policy names.
func references(p map[string]any) (applied, peers []string) {
	names := func(v any) (out []string) {
		list, _ := v.([]any)
		for _, n := range list {
			out = append(out, n.(string))
		}
		return out
	}
	applied = names(p["appliedToGroups"])
	rules, _ := p["rules"].([]any)
	for _, r := range rules {
		r := r.(map[string]any)
		applied = append(applied, names(r["appliedToGroups"])...)
		for _, side := range []string{"from", "to"} {
			if peer, ok := r[side].(map[string]any); ok {
				peers = append(peers, names(peer["addressGroups"])...)
			}
		}
	}
	return applied, peers
}

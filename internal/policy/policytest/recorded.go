package policytest

import (
	"encoding/json"
	"fmt"
	"io/fs"
)

// Script is a recorded watch script: after the objects of Setup were there, in each step something
// was changed, and every watch ("KEY/RESOURCE") got events.
type Script struct {
	Setup   []map[string]any         `json:"setup"`
	Steps   []string                 `json:"steps"`
	Watches map[string][]ScriptEvent `json:"watches"`
}

// ScriptEvent is one event of a watch: the step in which it came, its type, and the object as it
// was sent.
type ScriptEvent struct {
	Step   string         `json:"step"`
	Type   string         `json:"type"`
	Object map[string]any `json:"object"`
}

// ReadScript reads the script of a checkout, whose root folder is fsys.
func ReadScript(fsys fs.FS) (s Script, err error) {
	raw, err := fs.ReadFile(fsys, "testdata/conformance/watch/membership.json")
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil {
		return s, fmt.Errorf("read the recorded watch script: %w", err)
	}
	return s, nil
}

// Ambient are the Namespaces that the recorded cluster had besides the Namespaces of each case.
// They show in the rules of policies with peers relative to the Namespace.
func Ambient() []string {
	return []string{"default", "kube-node-lease", "kube-public", "kube-system", "vm-ns"}
}

// Stricter are the recorded cases with an object that the recorded controller accepted, to compute
// something else than was written, and that we refuse, with the reason. Their other objects must
// compute as recorded.
func Stricter() map[string]string {
	return map[string]string{
		"v10-fqdn-ingress":     "fqdn in an ingress rule is refused, not dropped (which leaves all Pods of the Namespace)",
		"v13-invalid-selector": "operator In without values: the recorded answer selects all Pods of the Namespace instead",
		"v22-port-string-bad":  "port 70000: the recorded answer hands it to enforcers",
	}
}

// PruneManifest removes from a decoded policy what the recorded cluster's schema removed without a
// word, and we accept: externalEntitySelector anywhere in a ClusterNetworkPolicy and in rule-level
// appliedTo. It reports whether the policy has a rule with `namespaces` peers that applies to a
// group, which we read otherwise: for the group's members only. Objects of other kinds stay as they
// are.
func PruneManifest(o map[string]any) (relativeToGroup bool) {
	kind, _ := o["kind"].(string)
	version, _ := o["apiVersion"].(string)
	spec, _ := o["spec"].(map[string]any)
	if version != "crd.antrea.io/v1beta1" || kind != "NetworkPolicy" && kind != "ClusterNetworkPolicy" {
		return false
	}
	cluster := kind == "ClusterNetworkPolicy"
	inGroup := false
	for _, a := range objectsIn(spec, "appliedTo") {
		if cluster {
			delete(a, "externalEntitySelector")
		}
		inGroup = inGroup || a["group"] != nil
	}
	for _, r := range append(objectsIn(spec, "ingress"), objectsIn(spec, "egress")...) {
		group := inGroup
		for _, a := range objectsIn(r, "appliedTo") {
			delete(a, "externalEntitySelector")
			group = group || a["group"] != nil
		}
		for _, p := range append(objectsIn(r, "from"), objectsIn(r, "to")...) {
			if cluster {
				delete(p, "externalEntitySelector")
			}
			relativeToGroup = relativeToGroup || group && p["namespaces"] != nil
		}
	}
	return relativeToGroup
}

// objectsIn returns the objects in a list field.
func objectsIn(o map[string]any, field string) []map[string]any {
	list, _ := o[field].([]any)
	var out []map[string]any
	for _, x := range list {
		if m, ok := x.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

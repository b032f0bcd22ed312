package selection

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

func id(s string) v1alpha1.EntityMatch   { return v1alpha1.EntityMatch{MatchID: s} }
func name(s string) v1alpha1.EntityMatch { return v1alpha1.EntityMatch{MatchName: s} }

type entry = v1alpha1.VirtualMachineSelector

func TestSelectEntry(t *testing.T) {
	t.Parallel()
	network := &cloud.Network{ID: "vpc-1", Name: "prod"}
	vm := &cloud.VM{ID: "i-1", Name: "web", NetworkID: "vpc-1", Tags: map[string]string{"Name": "web", "role": "front", "empty": ""}}
	vpc := func(m v1alpha1.EntityMatch) *v1alpha1.EntityMatch { return &m }
	tag := func(key string, values ...string) []v1alpha1.TagMatch {
		return []v1alpha1.TagMatch{{Key: key, Values: values}}
	}
	for i, c := range []struct {
		entry entry
		want  specificity
	}{
		{entry{}, notSelected},
		{entry{VpcMatch: vpc(id("vpc-1"))}, byVPC},
		{entry{VpcMatch: vpc(name("prod"))}, byVPC},
		{entry{VpcMatch: vpc(name("pro*"))}, notSelected},
		{entry{VpcMatch: vpc(id("vpc-2"))}, notSelected},
		{entry{VpcMatch: &v1alpha1.EntityMatch{}}, notSelected},
		{entry{VMMatch: []v1alpha1.EntityMatch{id("i-1")}}, byID},
		{entry{VMMatch: []v1alpha1.EntityMatch{name("web")}}, byName},
		{entry{VMMatch: []v1alpha1.EntityMatch{name("Web")}}, notSelected},
		{entry{VMMatch: []v1alpha1.EntityMatch{{}}}, notSelected},
		{entry{VMMatch: []v1alpha1.EntityMatch{id("i-2"), name("web")}}, byName},
		{entry{VMMatch: []v1alpha1.EntityMatch{name("web"), id("i-1")}}, byID},
		{entry{VpcMatch: vpc(id("vpc-1")), VMMatch: []v1alpha1.EntityMatch{name("web")}}, byVPCAndName},
		{entry{VpcMatch: vpc(id("vpc-2")), VMMatch: []v1alpha1.EntityMatch{id("i-1")}}, notSelected},
		{entry{VpcMatch: vpc(id("vpc-1")), VMMatch: []v1alpha1.EntityMatch{id("i-2")}}, notSelected},
		{entry{TagMatch: tag("role")}, byTag},
		{entry{TagMatch: tag("role", "back", "front")}, byTag},
		{entry{TagMatch: tag("role", "back")}, notSelected},
		{entry{TagMatch: tag("empty", "")}, byTag},
		{entry{TagMatch: append(tag("role"), tag("nope")...)}, notSelected},
		{entry{VpcMatch: vpc(name("prod")), TagMatch: tag("role", "front")}, byVPC},
	} {
		if got := selectEntry(c.entry, vm, network); got != c.want {
			t.Errorf("%d: %d; want %d", i, got, c.want)
		}
	}
	if selectEntry(entry{VpcMatch: vpc(name("prod"))}, vm, nil) != notSelected {
		t.Error("a VM in an unknown network was selected by the network's name")
	}
}

func selector(namespace, name string, entries ...entry) v1alpha1.CloudEntitySelector {
	return v1alpha1.CloudEntitySelector{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.CloudEntitySelectorSpec{AccountName: "acc", AccountNamespace: "ns", VMSelector: entries},
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	vm := &cloud.VM{ID: "i-1", Name: "web", NetworkID: "vpc-1"}
	whole := entry{VpcMatch: &v1alpha1.EntityMatch{MatchID: "vpc-1"}}
	agented := func(e entry) entry { e.Agented = true; return e }
	byNameEntry, byIDEntry := entry{VMMatch: []v1alpha1.EntityMatch{name("web")}}, entry{VMMatch: []v1alpha1.EntityMatch{id("i-1")}}
	both := entry{VpcMatch: whole.VpcMatch, VMMatch: byNameEntry.VMMatch}
	for i, c := range []struct {
		selectors []v1alpha1.CloudEntitySelector
		want      string
	}{
		{nil, "map[]"},
		{[]v1alpha1.CloudEntitySelector{selector("a", "x", whole), selector("b", "y", byIDEntry)}, "map[a:{x false} b:{y false}]"},
		{[]v1alpha1.CloudEntitySelector{selector("a", "x", agented(whole)), selector("b", "y", whole)}, "map[a:{x true} b:{y false}]"},
		{[]v1alpha1.CloudEntitySelector{selector("a", "x", agented(whole), byNameEntry)}, "map[a:{x false}]"},
		{[]v1alpha1.CloudEntitySelector{selector("a", "x", byNameEntry, agented(both))}, "map[a:{x true}]"},
		{[]v1alpha1.CloudEntitySelector{selector("a", "x", agented(both), byIDEntry)}, "map[a:{x false}]"},
		{[]v1alpha1.CloudEntitySelector{selector("a", "x", byNameEntry), selector("a", "y", agented(byIDEntry))}, "map[a:{x true}]"},
		{[]v1alpha1.CloudEntitySelector{selector("a", "x", whole), selector("a", "y", agented(whole))}, "map[a:{x false}]"},
	} {
		counted := 0
		got := fmt.Sprint(choose(c.selectors, vm, nil, func(int) { counted++ }))
		if got != c.want || counted != len(c.selectors) {
			t.Errorf("%d: %s, counted %d; want %s, %d", i, got, counted, c.want, len(c.selectors))
		}
	}
}

func TestTagLabels(t *testing.T) {
	t.Parallel()
	long := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = 'k'
		}
		return string(b)
	}
	labels, left := tagLabels(map[string]string{
		"a": "b", "Name": "web-1", "empty": "", "over": "cloud", "aws:cloudformation:stack-id": "x", "team/x": "y", long(59): long(63),
		long(60): "v", "long": long(64), "spaces": "a b", "end-": "x", "Env.Name_1": "P.r_o-d",
	}, map[string]string{"over": "user", "mine": "1"}, true)
	want := map[string]string{
		"a": "b", "Name": "web-1", "empty": "", "over": "user", "mine": "1", long(59): long(63), "Env.Name_1": "P.r_o-d",
	}
	for k, v := range want {
		if got, ok := labels[v1alpha1.LabelTagPrefix+k]; !ok || got != v {
			t.Errorf("label of %s is %q, %t; want %q", k, got, ok, v)
		}
	}
	if len(labels) != len(want) {
		t.Errorf("%d labels; want %d: %v", len(labels), len(want), labels)
	}
	var keys []string
	for _, l := range left {
		keys = append(keys, l.Key)
		if l.Reason == "" {
			t.Errorf("no reason for %s", l.Key)
		}
	}
	if got := fmt.Sprint(keys); got != fmt.Sprint([]string{"aws:cloudformation:stack-id", "end-", long(60), "long", "spaces", "team/x"}) {
		t.Errorf("left out %s", got)
	}
	// Apart, the user's tags have labels of their own, whose keys are shorter.
	labels, left = tagLabels(map[string]string{"over": "cloud", "bad/": "x"}, map[string]string{"over": "user", long(54): "y", long(55): "z", "bad/": "x"}, false)
	for k, v := range map[string]string{v1alpha1.LabelTagPrefix + "over": "cloud", v1alpha1.LabelUserTagPrefix + "over": "user", v1alpha1.LabelUserTagPrefix + long(54): "y"} {
		if labels[k] != v {
			t.Errorf("label %s is %q; want %q", k, labels[k], v)
		}
	}
	if len(labels) != 3 || len(left) != 3 || left[0].Key != "bad/" || left[1].Key != "bad/" || left[2].Key != long(55) {
		t.Errorf("labels %v, left out %+v", labels, left)
	}
}

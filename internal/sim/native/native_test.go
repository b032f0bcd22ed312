package native_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/sim/native"
)

// TestScaled: the oldest nodes go first, and each subnet has what was asked for.
func TestScaled(t *testing.T) {
	node := func(subnet, nic string) native.Node { return native.Node{SubnetID: subnet, NIC: nic} }
	have := []native.Node{node("a", "1"), node("b", "2"), node("a", "3"), node("a", "4")}
	grown, surplus := native.Scaled(have, []string{"a", "b"}, 2)
	if want := []native.Node{node("a", "1"), node("b", "2"), node("a", "3"), node("a", "4"), node("b", "")}; surplus != 1 || !slices.Equal(grown, want) {
		t.Errorf("%d go of %v, want 1 of %v", surplus, grown, want)
	}
	if len(have) != 4 || have[0].NIC != "1" {
		t.Errorf("the nodes that were given have changed: %v", have)
	}
}

func TestNextWriter(t *testing.T) {
	a, b, c := &native.Service{Name: "a"}, &native.Service{Name: "b", Writer: true}, &native.Service{Name: "c"}
	for _, want := range []string{"c", "a", "b"} {
		if got := native.NextWriter([]*native.Service{a, b, c}); got == nil || got.Name != want || !got.Writer {
			t.Fatalf("the next writer is %+v, want %s", got, want)
		}
		n := 0
		for _, s := range []*native.Service{a, b, c} {
			if s.Writer {
				n++
			}
		}
		if n != 1 {
			t.Fatalf("%d writers", n)
		}
	}
	if native.NextWriter([]*native.Service{a}) != nil {
		t.Error("a lone member was failed over")
	}
}

// TestHostNames: no two services have the same name, not even that of their readers.
func TestHostNames(t *testing.T) {
	seen := map[string]native.Kind{}
	for _, k := range native.Kinds() {
		s := native.Service{Kind: k, Name: "x", Account: "111122223333", Region: "eu-west-1", Engine: "com.amazonaws.eu-west-1.sqs"}
		if k.Balances() {
			s.Name = native.BalancerName(k, s.Account, s.Region, "x")
		}
		if s.HostName() == "" && k != native.Function && k != native.MountTarget && k != native.GatewayBalancer {
			t.Errorf("a %s has no name", k)
		}
		if (s.ReaderHost() != "") != (k == native.DatabaseCluster || k == native.ReplicationGroup) {
			t.Errorf("the readers of a %s are called %q", k, s.ReaderHost())
		}
		for _, host := range []string{s.HostName(), s.ReaderHost()} {
			if other, ok := seen[host]; ok && host != "" {
				t.Errorf("a %s and a %s are both %s", k, other, host)
			}
			seen[host] = k
		}
	}
}

func TestTags(t *testing.T) {
	for text, good := range map[string]bool{
		"team=shop": true, "a b=ü.:/+-@": true, "=x": false, "aws:x=1": false, "AWS:x=1": false, "j={}": false, "q=\"": false, "c=a,b": false,
		strings.Repeat("k", 129) + "=": false, "k=" + strings.Repeat("v", 257): false,
	} {
		k, v, _ := strings.Cut(text, "=")
		if err := native.CheckTag(k, v); (err == nil) != good {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	many := map[string]string{}
	for i := range native.MaxTags {
		many[strings.Repeat("k", i+1)] = ""
	}
	full, err := native.WithTags(nil, many, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := native.WithTags(full, map[string]string{"other": "1"}, nil); err == nil {
		t.Error("one tag too many was taken")
	}
	if got, err := native.WithTags(full, map[string]string{"other": "1"}, []string{"k"}); err != nil || got["other"] != "1" || len(full) != native.MaxTags {
		t.Errorf("%d tags, %v; the given ones are %d", len(got), err, len(full))
	}
}

func TestPreservedClients(t *testing.T) {
	off, on := false, true
	for _, c := range []struct {
		kind native.Kind
		g    native.TargetGroup
		want bool
	}{
		{native.AppBalancer, native.TargetGroup{Type: "instance", Protocol: "HTTP"}, false},
		{native.AppBalancer, native.TargetGroup{Type: "instance", Protocol: "HTTP", PreserveClient: &on}, false},
		{native.NetBalancer, native.TargetGroup{Type: "instance", Protocol: "TCP"}, true},
		{native.NetBalancer, native.TargetGroup{Type: "ip", Protocol: "TCP"}, false},
		{native.NetBalancer, native.TargetGroup{Type: "ip", Protocol: "UDP"}, true},
		{native.NetBalancer, native.TargetGroup{Type: "instance", Protocol: "TLS", PreserveClient: &off}, false},
		{native.GatewayBalancer, native.TargetGroup{Protocol: "GENEVE"}, true},
	} {
		if got := c.g.Preserves(c.kind); got != c.want {
			t.Errorf("%s with %+v: %v", c.kind, c.g, got)
		}
	}
}

package v1alpha1

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"
)

// wireScheme lists every message with its fields and their numbers. It was written down from the
// API's description, not from the Go types.
const wireScheme = `
AntreaClusterNetworkPolicyStats metadata 1, trafficStats 2, ruleTrafficStats 3
AntreaClusterNetworkPolicyStatsList metadata 1, items 2
AntreaNetworkPolicyStats metadata 1, trafficStats 2, ruleTrafficStats 3
AntreaNetworkPolicyStatsList metadata 1, items 2
MulticastGroup metadata 1, group 2, pods 3
MulticastGroupList metadata 1, items 2
NetworkPolicyStats metadata 1, trafficStats 2
NetworkPolicyStatsList metadata 1, items 2
NodeLatencyStats metadata 1, peerNodeLatencyStats 2
NodeLatencyStatsList metadata 1, items 2
PeerNodeLatencyStats nodeName 1, targetIPLatencyStats 2
PodReference name 1, namespace 2
RuleTrafficStats name 1, trafficStats 2
TargetIPLatencyStats targetIP 1, lastSendTime 2, lastRecvTime 3, lastMeasuredRTTNanoseconds 4
TrafficStats packets 1, bytes 2, sessions 3
`

func messageTypes(t *testing.T) map[string]reflect.Type {
	t.Helper()
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	all := map[string]reflect.Type{}
	var visit func(typ reflect.Type)
	visit = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || typ.PkgPath() != reflect.TypeFor[NetworkPolicyStats]().PkgPath() || all[typ.Name()] != nil {
			return
		}
		all[typ.Name()] = typ
		for f := range typ.Fields() {
			visit(f.Type)
		}
	}
	for _, typ := range s.KnownTypes(GroupVersion()) {
		visit(typ)
	}
	return all
}

func TestFieldNumbers(t *testing.T) {
	types := messageTypes(t)
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(types)) {
		var fields []string
		for f := range types[name].Fields() {
			parts := strings.Split(f.Tag.Get("protobuf"), ",")
			if len(parts) < 4 {
				continue
			}
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if parts[3] != "name="+key {
				t.Errorf("%s.%s is %q in JSON and %q in protobuf", name, f.Name, key, parts[3])
			}
			fields = append(fields, key+" "+parts[1])
		}
		lines = append(lines, fmt.Sprintf("%s %s", name, strings.Join(fields, ", ")))
	}
	if diff := cmp.Diff(strings.TrimSpace(wireScheme), strings.Join(lines, "\n")); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// Random values survive encoding and decoding.
func TestProtobufRoundTrip(t *testing.T) {
	seed := rand.Int64()
	t.Logf("seed %d", seed)
	fill := randfill.NewWithSeed(seed).NilChance(0.3).NumElements(1, 3).Funcs(
		func(*metav1.TypeMeta, randfill.Continue) {},
		func(m *metav1.ObjectMeta, c randfill.Continue) {
			c.Fill(&m.Name)
			c.Fill(&m.CreationTimestamp)
		},
		func(m *metav1.ListMeta, c randfill.Continue) { c.Fill(&m.ResourceVersion) },
	)
	for name, typ := range messageTypes(t) {
		for range 50 {
			in, out := reflect.New(typ), reflect.New(typ)
			fill.Fill(in.Interface())
			data, err := in.Interface().(interface{ Marshal() ([]byte, error) }).Marshal()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := out.Interface().(interface{ Unmarshal([]byte) error }).Unmarshal(data); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !equality.Semantic.DeepEqual(in.Interface(), out.Interface()) {
				t.Fatalf("%s: %s", name, cmp.Diff(in.Interface(), out.Interface()))
			}
		}
	}
}

// One message as bytes: an Antrea client reads exactly this.
func TestGoldenBytes(t *testing.T) {
	data, err := (&TrafficStats{Packets: 5, Bytes: 300, Sessions: 1}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%x", data); got != "080510ac021801" {
		t.Errorf("got %s", got)
	}
}

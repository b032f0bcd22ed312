package v1beta2

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"net"
	"reflect"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"
)

// message is what every generated type is.
type message interface {
	runtime.ProtobufMarshaller
	runtime.ProtobufReverseMarshaller
	Marshal() ([]byte, error)
	Unmarshal(data []byte) error
	Reset()
}

// wireScheme lists every message with its fields in the order name, type, number; "*" marks a
// repeated field. It was written down from the API's description, not from the Go types. The fields
// of NetworkPolicyNodeStatus from 13 on are ours.
const wireScheme = `
NetworkPolicy metadata ObjectMeta 1, rules *NetworkPolicyRule 2, appliedToGroups *string 3, priority double 4, tierPriority int32 5, sourceRef NetworkPolicyReference 6
NetworkPolicyReference type string 1, namespace string 2, name string 3, uid string 4
NetworkPolicyRule direction string 1, from NetworkPolicyPeer 2, to NetworkPolicyPeer 3, services *Service 4, priority int32 5, action string 6, enableLogging bool 7, appliedToGroups *string 8, name string 9, l7Protocols *L7Protocol 10, logLabel string 11
NetworkPolicyPeer addressGroups *string 1, ipBlocks *IPBlock 2, fqdns *string 3, toServices *ServiceReference 4, labelIdentities *uint32 5
Service protocol string 1, port IntOrString 2, endPort int32 3, icmpType int32 4, icmpCode int32 5, igmpType int32 6, groupAddress string 7, srcPort int32 8, srcEndPort int32 9
IPBlock cidr IPNet 1, except *IPNet 2
IPNet ip bytes 1, prefixLength int32 2
L7Protocol http HTTPProtocol 1, tls TLSProtocol 2
HTTPProtocol host string 1, method string 2, path string 3
TLSProtocol sni string 1
AddressGroup metadata ObjectMeta 1, groupMembers *GroupMember 2
AppliedToGroup metadata ObjectMeta 1, groupMembers *GroupMember 2
AddressGroupPatch metadata ObjectMeta 1, addedGroupMembers *GroupMember 2, removedGroupMembers *GroupMember 3
AppliedToGroupPatch metadata ObjectMeta 1, addedGroupMembers *GroupMember 2, removedGroupMembers *GroupMember 3
GroupMember pod PodReference 1, externalEntity ExternalEntityReference 2, ips *bytes 3, ports *NamedPort 4, node NodeReference 5, service ServiceReference 6
PodReference name string 1, namespace string 2
ExternalEntityReference name string 1, namespace string 2
ServiceReference name string 1, namespace string 2
NodeReference name string 1
NamedPort port int32 1, name string 2, protocol string 3
NetworkPolicyList metadata ListMeta 1, items *NetworkPolicy 2
AddressGroupList metadata ListMeta 1, items *AddressGroup 2
AppliedToGroupList metadata ListMeta 1, items *AppliedToGroup 2
NetworkPolicyStatus metadata ObjectMeta 1, nodes *NetworkPolicyNodeStatus 2
NetworkPolicyNodeStatus nodeName string 1, generation int64 2, realizationFailure bool 3, message string 4, workloads int32 13, workloadsRealized int32 14, workloadsPlanned int32 15, workloadsSuspended int32 12
NodeStatsSummary metadata ObjectMeta 1, networkPolicies *NetworkPolicyStats 2, antreaClusterNetworkPolicies *NetworkPolicyStats 3, antreaNetworkPolicies *NetworkPolicyStats 4, multicast *MulticastGroupInfo 5
NetworkPolicyStats networkPolicy NetworkPolicyReference 1, trafficStats TrafficStats 2, ruleTrafficStats *RuleTrafficStats 3
TrafficStats packets int64 1, bytes int64 2, sessions int64 3
RuleTrafficStats name string 1, trafficStats TrafficStats 2
MulticastGroupInfo group string 1, pods *PodReference 2
ClusterGroupMembers metadata ObjectMeta 1, effectiveMembers *GroupMember 2, effectiveIPBlocks *IPNet 3, totalMembers int64 4, totalPages int64 5, currentPage int64 6
GroupMembers metadata ObjectMeta 1, effectiveMembers *GroupMember 2, effectiveIPBlocks *IPNet 3, totalMembers int64 4, totalPages int64 5, currentPage int64 6
PaginationGetOptions page int64 1, limit int64 2
GroupReference namespace string 1, name string 2, uid string 3
GroupAssociation metadata ObjectMeta 1, associatedGroups *GroupReference 2
IPGroupAssociation metadata ObjectMeta 1, associatedGroups *GroupReference 2
NetworkPolicyEvaluation request NetworkPolicyEvaluationRequest 1, response NetworkPolicyEvaluationResponse 2, metadata ObjectMeta 3
NetworkPolicyEvaluationRequest source Entity 1, destination Entity 2
NetworkPolicyEvaluationResponse networkPolicy NetworkPolicyReference 1, ruleIndex int32 2, rule RuleRef 3
RuleRef direction string 1, name string 2, action string 3
Entity pod PodReference 1
EgressGroup metadata ObjectMeta 1, groupMembers *GroupMember 2
EgressGroupPatch objectMeta ObjectMeta 1, addedGroupMembers *GroupMember 2, removedGroupMembers *GroupMember 3
EgressGroupList metadata ListMeta 1, items *EgressGroup 2
SupportBundleCollection metadata ObjectMeta 1, expiredAt Time 2, sinceTime string 3, fileServer BundleFileServer 4, authentication BundleServerAuthConfiguration 5
SupportBundleCollectionList metadata ListMeta 1, items *SupportBundleCollection 2
BundleFileServer url string 1, hostPublicKey bytes 2
BundleServerAuthConfiguration bearerToken string 1, apiKey string 2, basicAuthentication BasicAuthentication 3
BasicAuthentication username string 1, password string 2
SupportBundleCollectionStatus metadata ObjectMeta 1, nodes *SupportBundleCollectionNodeStatus 2
SupportBundleCollectionNodeStatus nodeName string 1, nodeNamespace string 2, nodeType string 3, completed bool 4, error string 5
ObjectMeta name string 1, generateName string 2, namespace string 3, selfLink string 4, uid string 5, resourceVersion string 6, generation int64 7, creationTimestamp Time 8
ListMeta selfLink string 1, resourceVersion string 2, continue string 3, remainingItemCount int64 4
Time seconds int64 1, nanos int32 2
IntOrString type int64 1, intVal int32 2, strVal string 3
`

// messageTypes are the generated types by name.
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
		if typ.Kind() != reflect.Struct || typ.PkgPath() != reflect.TypeFor[NetworkPolicy]().PkgPath() || all[typ.Name()] != nil {
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

// schemeDescriptors builds descriptors from wireScheme.
func schemeDescriptors(t *testing.T) protoreflect.MessageDescriptors {
	t.Helper()
	kinds := map[string]descriptorpb.FieldDescriptorProto_Type{
		"string": descriptorpb.FieldDescriptorProto_TYPE_STRING, "bytes": descriptorpb.FieldDescriptorProto_TYPE_BYTES,
		"bool": descriptorpb.FieldDescriptorProto_TYPE_BOOL, "double": descriptorpb.FieldDescriptorProto_TYPE_DOUBLE,
		"int32": descriptorpb.FieldDescriptorProto_TYPE_INT32, "int64": descriptorpb.FieldDescriptorProto_TYPE_INT64,
		"uint32": descriptorpb.FieldDescriptorProto_TYPE_UINT32,
	}
	file := &descriptorpb.FileDescriptorProto{Name: proto.String("w.proto"), Package: proto.String("w"), Syntax: proto.String("proto2")}
	for line := range strings.Lines(strings.TrimSpace(wireScheme)) {
		name, fields, _ := strings.Cut(strings.TrimSpace(line), " ")
		m := &descriptorpb.DescriptorProto{Name: proto.String(name)}
		for _, f := range strings.Split(fields, ", ") {
			parts := strings.Fields(f)
			typ, repeated := strings.CutPrefix(parts[1], "*")
			number := int32(0)
			for _, digit := range parts[2] {
				number = number*10 + digit - '0'
			}
			d := &descriptorpb.FieldDescriptorProto{Name: proto.String(parts[0]), Number: proto.Int32(number),
				Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
			if repeated {
				d.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
			}
			if k, ok := kinds[typ]; ok {
				d.Type = k.Enum()
			} else {
				d.Type, d.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), proto.String(".w."+typ)
			}
			m.Field = append(m.Field, d)
		}
		file.MessageType = append(file.MessageType, m)
	}
	built, err := protodesc.NewFile(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return built.Messages()
}

// filler makes random values in the form in which decoding returns them: lists are nil or hold
// something.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.3).NumElements(1, 3).Funcs(
		func(*metav1.TypeMeta, randfill.Continue) {},
		func(m *metav1.ObjectMeta, c randfill.Continue) {
			c.Fill(&m.Name)
			c.Fill(&m.Namespace)
			c.Fill(&m.UID)
			c.Fill(&m.ResourceVersion)
			c.Fill(&m.Generation)
			c.Fill(&m.CreationTimestamp)
		},
		func(m *metav1.ListMeta, c randfill.Continue) {
			c.Fill(&m.ResourceVersion)
			c.Fill(&m.Continue)
			c.Fill(&m.RemainingItemCount)
		},
		func(p *intstr.IntOrString, c randfill.Continue) {
			if c.Bool() {
				*p = intstr.FromInt32(c.Int31())
			} else {
				*p = intstr.FromString(c.String(8))
			}
		},
	)
}

func TestEveryMessageIsGeneratedAndDescribed(t *testing.T) {
	descriptors := schemeDescriptors(t)
	types := messageTypes(t)
	if len(types) < 40 {
		t.Fatalf("only %d messages", len(types))
	}
	for name, typ := range types {
		if _, ok := reflect.New(typ).Interface().(message); !ok {
			t.Errorf("%s has no generated methods", name)
		}
		d := descriptors.ByName(protoreflect.Name(name))
		if d == nil {
			t.Errorf("%s is not in the description of the API", name)
			continue
		}
		tagged := 0
		for f := range typ.Fields() {
			if f.Tag.Get("protobuf") != "" {
				tagged++
			}
		}
		if tagged != d.Fields().Len() {
			t.Errorf("%s has %d fields, want %d", name, tagged, d.Fields().Len())
		}
	}
}

// Random values survive encoding and decoding, and a decoder that knows only the API's description
// reads the same values.
func TestProtobufRoundTrip(t *testing.T) {
	descriptors := schemeDescriptors(t)
	seed := rand.Int64()
	t.Logf("seed %d", seed)
	fill := filler(seed)
	for name, typ := range messageTypes(t) {
		for range 50 {
			in := reflect.New(typ)
			fill.Fill(in.Interface())
			data := encode(t, in.Interface().(message))
			out := reflect.New(typ)
			if err := out.Interface().(message).Unmarshal(data); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !equality.Semantic.DeepEqual(in.Interface(), out.Interface()) {
				t.Fatalf("%s: %s", name, cmp.Diff(in.Interface(), out.Interface()))
			}
			other := dynamicpb.NewMessage(descriptors.ByName(protoreflect.Name(name)))
			if err := proto.Unmarshal(data, other); err != nil {
				t.Fatalf("%s: another decoder: %v", name, err)
			}
			compareMessage(t, name, in.Elem(), other)
			again, err := proto.MarshalOptions{Deterministic: true}.Marshal(other)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(again, data) {
				t.Fatalf("%s: another encoder writes\n%x, not\n%x", name, again, data)
			}
		}
	}
}

// encode checks that all ways of encoding agree.
func encode(t *testing.T, m message) []byte {
	t.Helper()
	data, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	larger := make([]byte, m.Size()+7)
	n, err := m.MarshalTo(larger)
	if err != nil || n != m.Size() || !bytes.Equal(larger[:n], data) {
		t.Fatalf("MarshalTo wrote %d bytes %x (%v), Marshal %x", n, larger[:n], err, data)
	}
	n, err = m.MarshalToSizedBuffer(larger)
	if err != nil || !bytes.Equal(larger[len(larger)-n:], data) {
		t.Fatalf("MarshalToSizedBuffer wrote %x (%v), Marshal %x", larger[len(larger)-n:], err, data)
	}
	return data
}

// compareMessage compares a Go struct with what another decoder has read.
func compareMessage(t *testing.T, at string, want reflect.Value, got protoreflect.Message) {
	t.Helper()
	if len(got.GetUnknown()) > 0 {
		t.Fatalf("%s: %d bytes of unknown fields", at, len(got.GetUnknown()))
	}
	for f, v := range want.Fields() {
		parts := strings.Split(f.Tag.Get("protobuf"), ",")
		if len(parts) < 4 {
			continue
		}
		name := strings.TrimPrefix(parts[3], "name=")
		d := got.Descriptor().Fields().ByName(protoreflect.Name(name))
		if d == nil {
			if !v.IsZero() {
				t.Fatalf("%s.%s is not in the description", at, name)
			}
			continue
		}
		if d.IsList() {
			list := got.Get(d).List()
			if list.Len() != v.Len() {
				t.Fatalf("%s.%s has %d elements, want %d", at, name, list.Len(), v.Len())
			}
			for i := range v.Len() {
				compareValue(t, at+"."+name, v.Index(i), list.Get(i))
			}
			continue
		}
		present := (v.Kind() != reflect.Pointer && v.Kind() != reflect.Slice) || !v.IsNil()
		if got.Has(d) != present {
			t.Fatalf("%s.%s is there: %t, want %t", at, name, got.Has(d), present)
		}
		if present {
			compareValue(t, at+"."+name, reflect.Indirect(v), got.Get(d))
		}
	}
}

func compareValue(t *testing.T, at string, want reflect.Value, got protoreflect.Value) {
	t.Helper()
	same := false
	switch x := want.Interface().(type) {
	case metav1.Time:
		m := got.Message()
		seconds := m.Get(m.Descriptor().Fields().ByName("seconds")).Int()
		same = (x.IsZero() && seconds == 0) || seconds == x.Unix()
	default:
		switch want.Kind() {
		case reflect.Struct:
			compareMessage(t, at, want, got.Message())
			return
		case reflect.String:
			same = got.String() == want.String()
		case reflect.Slice:
			same = bytes.Equal(got.Bytes(), want.Bytes())
		case reflect.Uint32:
			same = got.Uint() == want.Uint()
		case reflect.Int32, reflect.Int64:
			same = got.Int() == want.Int()
		case reflect.Bool:
			same = got.Bool() == want.Bool()
		case reflect.Float64:
			same = got.Float() == want.Float()
		}
	}
	if !same {
		t.Fatalf("%s is %v, want %v", at, got, want)
	}
}

// goldenPatch is one frame of a watch as an Antrea Controller sends it: Pod n/p with 10.0.0.1 comes
// into group g1.
const goldenPatch = "0000007f0a084d4f44494649454412730a716b3873000a330a1e636f6e74726f6c706c616e652e616e747265612e696f2f7631626574613212114164647265737347726f75705061746368" +
	"12320a140a02673112001a0022002a026731320038004200121a0a060a017012016e1a1000000000000000000000ffff0a0000011a002200"

func TestGoldenWatchFrame(t *testing.T) {
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	patch := &AddressGroupPatch{
		TypeMeta:   metav1.TypeMeta{Kind: "AddressGroupPatch", APIVersion: GroupVersion().String()},
		ObjectMeta: metav1.ObjectMeta{Name: "g1", UID: "g1"},
		AddedGroupMembers: []GroupMember{{
			Pod: &PodReference{Name: "p", Namespace: "n"}, IPs: []IPAddress{IPAddress(net.ParseIP("10.0.0.1"))},
		}},
	}
	object, err := runtime.Encode(protobuf.NewSerializer(s, s), patch)
	if err != nil {
		t.Fatal(err)
	}
	var stream bytes.Buffer
	event := &metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Raw: object}}
	if err := protobuf.NewRawSerializer(s, s).Encode(event, protobuf.LengthDelimitedFramer.NewFrameWriter(&stream)); err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(stream.Bytes()); got != goldenPatch {
		t.Errorf("got\n%s, want\n%s", got, goldenPatch)
	}
	back, _, err := protobuf.NewSerializer(s, s).Decode(object, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(patch, back) {
		t.Error(cmp.Diff(patch, back))
	}
}

// Whatever the bytes, decoding neither panics nor reads what encoding cannot write.
func FuzzUnmarshal(f *testing.F) {
	fill := filler(1)
	var empty []message
	for _, m := range []message{&NetworkPolicy{}, &AddressGroupPatch{}, &NodeStatsSummary{}, &NetworkPolicyEvaluation{}, &NetworkPolicyStatus{}} {
		empty = append(empty, m)
		for range 3 {
			x := reflect.New(reflect.TypeOf(m).Elem()).Interface().(message)
			fill.Fill(x)
			data, err := x.Marshal()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
			f.Add(data[:len(data)/2])
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, m := range empty {
			typ := reflect.TypeOf(m).Elem()
			first := reflect.New(typ).Interface().(message)
			if first.Unmarshal(data) != nil {
				continue
			}
			written := encode(t, first)
			second := reflect.New(typ).Interface().(message)
			if err := second.Unmarshal(written); err != nil {
				t.Fatalf("%s: cannot read what was written: %v", typ.Name(), err)
			}
			if again := encode(t, second); !bytes.Equal(again, written) {
				t.Fatalf("%s: written as\n%x, then as\n%x", typ.Name(), written, again)
			}
		}
	})
}

// TestDensestMessages: whatever stands in the lists of a message, reading it allocates no more than
// a small multiple of its length.
func TestDensestMessages(t *testing.T) {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	read := func(typ reflect.Type, data []byte) (took uint64, err error) {
		metrics.Read(sample)
		before := sample[0].Value.Uint64()
		err = reflect.New(typ).Interface().(message).Unmarshal(data)
		metrics.Read(sample)
		return sample[0].Value.Uint64() - before, err
	}
	const size = 256 << 10
	bound := uint64(16*size + size + 2<<20)
	refused := 0
	for name, typ := range messageTypes(t) {
		for f := range typ.Fields() {
			parts := strings.Split(f.Tag.Get("protobuf"), ",")
			if len(parts) < 3 {
				continue
			}
			number, err := strconv.Atoi(parts[1])
			if err != nil {
				t.Fatal(err)
			}
			key := byte(number<<3 | 2)
			for form, data := range map[string][]byte{
				"of nothing": bytes.Repeat([]byte{key, 0}, size/2), "of fields": bytes.Repeat([]byte{key, 2, 0x12, 0}, size/4), "in one": append([]byte{key, 0x80, 0x80, 0x10}, bytes.Repeat([]byte{key, 0}, size/2)...),
				"of lists of others": append([]byte{key, 0x80, 0x80, 0x10}, bytes.Repeat([]byte{0x8a, 1, 0}, size/3)...),
			} {
				took, err := read(typ, data)
				if err != nil {
					refused++
				}
				if took > bound {
					t.Errorf("%s.%s: %d bytes %s took %d bytes", name, f.Name, len(data), form, took)
				}
			}
		}
	}
	if refused == 0 {
		t.Error("nothing was refused, so nothing was tried")
	}
	honest := &AddressGroup{}
	for i := range 100_000 {
		honest.GroupMembers = append(honest.GroupMembers, GroupMember{IPs: []IPAddress{{10, byte(i >> 16), byte(i >> 8), byte(i)}}})
	}
	data, err := honest.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := read(reflect.TypeOf(*honest), data); err != nil {
		t.Errorf("a group of many addresses is not read: %v", err)
	}
}

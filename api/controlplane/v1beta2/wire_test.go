package v1beta2

import (
	"encoding/json"
	"net"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

func TestAddressesInJSON(t *testing.T) {
	got, err := json.Marshal(GroupMember{
		ExternalEntity: &ExternalEntityReference{Name: "e", Namespace: "ns"},
		IPs:            []IPAddress{IPAddress(net.ParseIP("10.0.0.1"))},
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"externalEntity":{"name":"e","namespace":"ns"},"ips":["AAAAAAAAAAAAAP//CgAAAQ=="]}`
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The protobuf tags of every message have distinct numbers, the name that JSON has, and the wire
// type of the Go type.
func TestProtobufTags(t *testing.T) {
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	seen := map[reflect.Type]bool{}
	for _, typ := range s.KnownTypes(GroupVersion()) {
		if typ.PkgPath() == reflect.TypeFor[NetworkPolicy]().PkgPath() {
			checkMessage(t, typ, seen)
		}
	}
	if len(seen) < 30 {
		t.Errorf("only %d messages were checked", len(seen))
	}
}

func checkMessage(t *testing.T, typ reflect.Type, seen map[reflect.Type]bool) {
	if seen[typ] {
		return
	}
	seen[typ] = true
	numbers := map[string]string{}
	for field := range typ.Fields() {
		if field.Name == "TypeMeta" {
			continue
		}
		parts := strings.Split(field.Tag.Get("protobuf"), ",")
		if len(parts) < 4 {
			t.Errorf("%s.%s has no protobuf tag", typ.Name(), field.Name)
			continue
		}
		if other := numbers[parts[1]]; other != "" {
			t.Errorf("%s.%s has the number %s of %s", typ.Name(), field.Name, parts[1], other)
		}
		numbers[parts[1]] = field.Name
		// The one type whose keys Antrea does not name is as Go has them.
		unnamed := typ == reflect.TypeFor[EgressGroupPatch]()
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if parts[3] != "name="+name && !(unnamed && (strings.EqualFold(parts[3], "name="+name) || field.Name == "ObjectMeta")) {
			t.Errorf("%s.%s is %q in JSON and %q in protobuf", typ.Name(), field.Name, name, parts[3])
		}
		wire, repeated, elem := encoding(field.Type)
		if parts[0] != wire || (parts[2] == "rep") != repeated {
			t.Errorf("%s.%s is tagged %s,%s; want %s, repeated %t", typ.Name(), field.Name, parts[0], parts[2], wire, repeated)
		}
		if elem.Kind() == reflect.Struct && elem.PkgPath() == typ.PkgPath() {
			checkMessage(t, elem, seen)
		}
	}
}

// encoding returns the wire type of a Go type, whether it is a repeated field, and the type of one
// value.
func encoding(typ reflect.Type) (wire string, repeated bool, elem reflect.Type) {
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ.Kind() == reflect.Slice && typ.Elem().Kind() != reflect.Uint8 {
		repeated, typ = true, typ.Elem()
	}
	switch typ.Kind() {
	case reflect.Float64:
		return "fixed64", repeated, typ
	case reflect.Bool, reflect.Int32, reflect.Int64, reflect.Uint32:
		return "varint", repeated, typ
	default:
		return "bytes", repeated, typ
	}
}

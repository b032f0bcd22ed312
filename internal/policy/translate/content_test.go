package translate

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/nephele-io/nephele/internal/policy"
)

// TestContentsDifferInEveryField: contents that differ in anything are never taken for one another,
// whatever their hashes, and equal ones have the same hash.
func TestContentsDifferInEveryField(t *testing.T) {
	made := func() *policy.RuleContent {
		number := func(n int32) *int32 { return &n }
		return &policy.RuleContent{
			Direction: policy.Ingress, Action: policy.Allow, Priority: 1, EnableLogging: true, Name: "n", LogLabel: "l",
			Services: []policy.ServiceMatch{{
				Protocol: policy.TCP, Port: &policy.PortRef{Number: 1, Name: "p"}, EndPort: number(2), SrcPort: number(3), SrcEndPort: number(4),
				ICMPType: number(5), ICMPCode: number(6), IGMPType: number(7), GroupAddress: "g",
			}},
			IPBlocks: []policy.CIDRBlock{{CIDR: netip.MustParsePrefix("10.0.0.0/8"), Except: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}}},
			FQDNs:    []string{"f"}, ToServices: []policy.NamespacedName{{Namespace: "a", Name: "b"}},
		}
	}
	if a, b := made(), made(); !sameContent(a, b) || hashOf(a) != hashOf(b) {
		t.Fatal("equal contents are different")
	}
	var shared contents
	if a := shared.share(made()); shared.share(made()) != a {
		t.Error("equal contents are not shared")
	}
	l7 := made()
	l7.L7Protocols = []policy.L7Protocol{{}}
	if sameContent(l7, l7) || sameContent(made(), l7) || sameContent(l7, made()) {
		t.Error("contents with L7 protocols are taken for equal")
	}
	fields := 0
	// change calls try once for each leaf of v, while that is another one than it was.
	var change func(v reflect.Value, try func(path string), path string)
	change = func(v reflect.Value, try func(string), path string) {
		if v.Type() == reflect.TypeFor[netip.Prefix]() {
			former := v.Interface()
			v.Set(reflect.ValueOf(netip.MustParsePrefix("10.0.0.0/9")))
			try(path)
			v.Set(reflect.ValueOf(former))
			return
		}
		former := reflect.New(v.Type()).Elem()
		former.Set(v)
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				change(v.Field(i), try, path+"."+v.Type().Field(i).Name)
			}
		case reflect.Slice:
			for i := range v.Len() {
				change(v.Index(i), try, path)
			}
			v.SetZero()
			try(path + " is empty")
		case reflect.Pointer:
			change(v.Elem(), try, path)
			v.SetZero()
			try(path + " is missing")
		case reflect.String:
			v.SetString("other")
			try(path)
		case reflect.Bool:
			v.SetBool(!v.Bool())
			try(path)
		default:
			v.SetInt(99)
			try(path)
		}
		v.Set(former)
	}
	other, same := made(), made()
	change(reflect.ValueOf(other).Elem(), func(path string) {
		fields++
		if path != ".L7Protocols is empty" && (sameContent(same, other) || sameContent(other, same)) {
			t.Errorf("contents are taken for equal that differ in %s", path)
		}
	}, "")
	if fields < 20 || !sameContent(same, other) {
		t.Errorf("%d fields were changed, and put back: %t", fields, sameContent(same, other))
	}
}

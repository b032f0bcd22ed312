package bounds

import (
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// TestItemCosts compares what is reckoned for the items of lists with the types that they are
// decoded into.
func TestItemCosts(t *testing.T) {
	t.Parallel()
	for call, output := range map[string]any{
		"DescribeInstances": ec2.DescribeInstancesOutput{}, "DescribeNetworkInterfaces": ec2.DescribeNetworkInterfacesOutput{},
		"DescribeSecurityGroups": ec2.DescribeSecurityGroupsOutput{}, "DescribeSecurityGroupRules": ec2.DescribeSecurityGroupRulesOutput{},
		"DescribeVpcs": ec2.DescribeVpcsOutput{}, "DescribeVpcPeeringConnections": ec2.DescribeVpcPeeringConnectionsOutput{},
		"DescribeManagedPrefixLists": ec2.DescribeManagedPrefixListsOutput{}, "GetManagedPrefixListEntries": ec2.GetManagedPrefixListEntriesOutput{},
		"DescribeRegions": ec2.DescribeRegionsOutput{}, "DescribeSecurityGroupReferences": ec2.DescribeSecurityGroupReferencesOutput{},
		"AuthorizeSecurityGroupIngress": ec2.AuthorizeSecurityGroupIngressOutput{}, "AuthorizeSecurityGroupEgress": ec2.AuthorizeSecurityGroupEgressOutput{},
		"RevokeSecurityGroupIngress": ec2.RevokeSecurityGroupIngressOutput{}, "RevokeSecurityGroupEgress": ec2.RevokeSecurityGroupEgressOutput{},
		"CreateSecurityGroup": ec2.CreateSecurityGroupOutput{},
	} {
		costs, lists := itemCosts(call), 0
		var walk func(typ reflect.Type, items int, path string)
		walk = func(typ reflect.Type, items int, path string) {
			switch typ.Kind() {
			case reflect.Pointer:
				walk(typ.Elem(), items, path)
			case reflect.Slice:
				if cost := costs[min(items, len(costs)-1)]; cost < 2*int64(typ.Elem().Size()) && !strings.Contains(path, "ResultMetadata") {
					t.Errorf("%s: an item of %s takes %d bytes, and %d are reckoned for twice that", call, path, typ.Elem().Size(), cost)
				}
				lists++
				walk(typ.Elem(), items+1, path)
			case reflect.Struct:
				for i := range typ.NumField() {
					if f := typ.Field(i); f.IsExported() && f.Name != "ResultMetadata" && f.Type.PkgPath() != "time" && f.Type.String() != "*time.Time" {
						walk(f.Type, items, path+"."+f.Name)
					}
				}
			}
		}
		walk(reflect.TypeOf(output), 0, call)
		if lists == 0 {
			t.Errorf("%s has no list", call)
		}
	}
}

// TestScan: what an answer costs beyond its bytes does not depend on how it is cut, and nothing
// makes an item look cheaper than it is.
func TestScan(t *testing.T) {
	t.Parallel()
	const first, second, third = 1000, 10000, 100
	costs := []int64{first, second, third}
	for text, want := range map[string]int64{
		"":                           0,
		"text":                       0,
		`<?xml version="1.0"?><a/>`:  2 * openCost, // of the instruction, too: it is not worth the trouble
		"<a></a>":                    0,
		"<a><b></b></a>":             0,
		"<a><b><c>":                  3 * openCost,
		"<a/>":                       openCost,
		"<item></item>":              first,
		"<item/>":                    first + openCost,
		"<ITEM></ITEM>":              first,
		"<x:item></x:item>":          first,
		"<items></items><ite></ite>": 0,
		"<item><item></item></item>": first + second,
		"<item><item><item></item><item></item></item></item>": first + second + 2*third,
		"<item/><item/>":                         2*first + 2*openCost,
		"<item ><item></item></item >":           2 * first, // not sure that it has a content
		"<item><a><item/></a></item>":            first + second + openCost,
		"<?x <item> ?><item></item>":             first + openCost,
		"<!-- <item> --><item></item>":           2*second + 4*openCost,
		"<a><![CDATA[</</</]]><item></item>":     second + 7*openCost,
		"</item></item><item></item>":            first - 2*openCost,
		"<a b='<item>'>":                         first + 2*openCost,
		"<" + strings.Repeat("a:", 10) + "item>": first + openCost,
	} {
		for _, size := range []int{len(text) + 1, 1, 2, 3} {
			s := newXMLScan(costs)
			var got int64
			for at := 0; at < len(text); at += size {
				cost, ok := s.feed([]byte(text[at:min(at+size, len(text))]))
				if got += cost; !ok {
					t.Errorf("%q was refused", text)
				}
			}
			if got != want {
				t.Errorf("%q in parts of %d: %d; want %d", text, size, got, want)
			}
		}
	}
	for _, text := range []string{strings.Repeat("x", longestText+1), "<" + strings.Repeat("x", longestText+1), "<a>" + strings.Repeat("x", longestText+1) + "</a>",
		"<?" + strings.Repeat("x", longestText+1)} {
		s := newXMLScan(costs)
		_, first := s.feed([]byte(text[:100]))
		if _, ok := s.feed([]byte(text[100:])); ok || !first {
			t.Errorf("%.10q... of %d bytes passed", text, len(text))
		}
	}
	if cost, ok := (jsonScan{}).feed([]byte(`{"a":[1,2,{}]}`)); cost != 5*valueCost || !ok {
		t.Errorf("JSON: %d", cost)
	}
}

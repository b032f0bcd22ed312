package azure_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
)

// dump is what Resource Graph tells of the lab.
func (l *lab) dump() []map[string]any {
	var rows []map[string]any
	l.world.ReadAzure(func(c *simazure.Cloud, _ time.Time) {
		p := c.Principals()[0]
		rows, _ = c.GraphRows(&p, "resources", nil)
	})
	return rows
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// printed are rows as "az vm list --show-details" and "az network ... list" print them: without the
// member properties, also in parts of resources, and with names of members in another case.
func printed(t *testing.T, rows []map[string]any) []map[string]any {
	var plain []map[string]any
	if err := json.Unmarshal(encoded(t, rows), &plain); err != nil {
		t.Fatal(err)
	}
	var flat func(v any) any
	flat = func(v any) any {
		switch v := v.(type) {
		case []any:
			out := []any{}
			for _, x := range v {
				out = append(out, flat(x))
			}
			return out
		case map[string]any:
			out := map[string]any{}
			for k, x := range v {
				properties, nested := x.(map[string]any)
				switch {
				case k == "properties" && nested:
					for name, y := range properties {
						out[strings.ReplaceAll(name, "IPAddress", "IpAddress")] = flat(y)
					}
				case k != "id" && k != "name" && k != "tags":
					out[k] = flat(x)
				default:
					out[k] = x
				}
			}
			return out
		}
		return v
	}
	out := make([]map[string]any, len(plain))
	for i := range plain {
		out[i] = flat(plain[i]).(map[string]any)
		if view, ok := out[i]["extended"].(map[string]any); ok {
			code := view["instanceView"].(map[string]any)["powerState"].(map[string]any)["code"].(string)
			delete(out[i], "extended")
			out[i]["powerState"] = "VM " + strings.TrimPrefix(code, "PowerState/")
		}
		out[i]["resourceGroup"] = "shop"
	}
	return out
}

// byKind are lists of one kind of resources each.
func byKind(rows []map[string]any) []any {
	lists := map[string][]any{}
	for _, r := range rows {
		lists[r["type"].(string)] = append(lists[r["type"].(string)], r)
	}
	var out []any
	for _, l := range lists {
		out = append(out, l)
	}
	return out
}

// TestDescription: a subscription that is described reads as the one that was described, whatever
// the form and the order of the documents.
func TestDescription(t *testing.T) {
	l := newLab(t, nil)
	want := l.observe(l.account())
	rows := l.dump()
	half := len(rows) / 2
	for name, documents := range map[string][]any{
		"served":  {map[string]any{"totalRecords": len(rows), "count": len(rows), "data": rows, "resultTruncated": "false"}},
		"printed": {map[string]any{"total_records": len(rows), "count": len(rows), "data": rows, "skip_token": nil}},
		"parts":   {map[string]any{"total_records": len(rows), "data": rows[half:]}, map[string]any{"total_records": len(rows), "data": rows[:half], "skip_token": "x"}},
		"az":      byKind(printed(t, rows)),
		"lists":   {map[string]any{"value": rows[:half]}, rows[half:], rows[:1], map[string]any{"data": []any{map[string]any{"id": "/subscriptions/x", "name": "another thing"}}}},
	} {
		d := &azure.Description{}
		for _, x := range documents {
			if err := d.Add(name, encoded(t, x)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if err := d.Check(); err != nil || !slices.Equal(d.Subscriptions(), []string{subscription}) {
			t.Fatalf("%s: %v, %q", name, err, d.Subscriptions())
		}
		a := d.Account(strings.ToUpper(subscription), nil, func() time.Time { return l.now })
		got, err := a.Observe(t.Context(), inRegion)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\n%+v\nwant\n%+v", name, err, got, want)
		}
		if _, err := a.Apply(t.Context(), inRegion, cloud.Op{Kind: cloud.OpDeleteGroup, Target: l.nsg}); cloud.ClassOf(err) != cloud.Terminal {
			t.Errorf("a change: %v", err)
		}
		if _, err := a.Observe(t.Context(), cloud.Scope{Region: "northeurope"}); err == nil || !strings.Contains(err.Error(), "there is of westeurope") {
			t.Errorf("another region: %v", err)
		}
	}
}

// TestDescriptionOfServices: so it is with load balancers, gateways and private endpoints.
func TestDescriptionOfServices(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(b *build.Builder) {
		relays(b)
		b.Endpoint("shop", "sql", "/subscriptions/"+subscription+"/resourceGroups/shop/providers/Microsoft.Network/virtualNetworks/vnet-a/subnets/web", "10.1.1.99", "sqlServer", nil)
	})
	want, err := l.account().Show(cloud.ServiceKinds()).Observe(t.Context(), inRegion)
	if err != nil || len(want.Services) != 7 || len(want.ServiceFaults) > 0 {
		t.Fatalf("%v %+v", err, want)
	}
	rows := l.dump()
	for name, documents := range map[string][]any{"served": {map[string]any{"totalRecords": len(rows), "data": rows}}, "az": byKind(printed(t, rows))} {
		d := &azure.Description{}
		for _, x := range documents {
			if err := d.Add(name, encoded(t, x)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		got, err := d.Account(subscription, nil, func() time.Time { return l.now }).(cloud.ServiceShower).Show(cloud.ServiceKinds()).Observe(t.Context(), inRegion)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.Services, want.Services) {
			t.Errorf("%s: %+v\nwant\n%+v", name, got.Services, want.Services)
		}
	}
}

// TestDescriptionIsWhole: what is not whole, or not what it should be, is refused with its name.
func TestDescriptionIsWhole(t *testing.T) {
	l := newLab(t, nil)
	rows := l.dump()
	without := func(kind string) []map[string]any {
		return slices.DeleteFunc(slices.Clone(rows), func(r map[string]any) bool { return strings.HasSuffix(r["type"].(string), kind) })
	}
	other := map[string]any{}
	for k, v := range rows[0] {
		other[k] = v
	}
	other["tags"] = map[string]any{"a": "b"}
	for name, c := range map[string]struct {
		documents []any
		want      string
	}{
		"a part":           {[]any{map[string]any{"total_records": len(rows), "data": rows[1:]}}, "a part: 8 of 9 resources are told"},
		"cut off":          {[]any{map[string]any{"data": rows, "resultTruncated": "true"}}, "cut off"},
		"a page":           {[]any{map[string]any{"value": rows, "nextLink": "https://x"}}, "nextLink"},
		"nothing":          {[]any{[]any{}}, "there is no resource of Azure"},
		"a table":          {[]any{map[string]any{"data": map[string]any{"columns": []any{}, "rows": []any{}}}}, "not a list of resources"},
		"something":        {[]any{map[string]any{"Vpcs": []any{}}}, "no answer of Resource Graph"},
		"a reference":      {[]any{[]any{map[string]any{"id": l.nsg, "resourceGroup": "shop"}}}, "no properties or no location"},
		"twice":            {[]any{rows, []any{other}}, "and not alike"},
		"no interfaces":    {[]any{without("networkinterfaces")}, "2 resources that others name are not told"},
		"no groups":        {[]any{without("networksecuritygroups")}, "resources that others name are not told"},
		"no machines":      {[]any{without("virtualmachines")}, "2 resources that others name are not told"},
		"no networks":      {[]any{without("virtualnetworks")}, "resources that others name are not told"},
		"no member groups": {[]any{without("applicationsecuritygroups")}, "1 resources that others name are not told"},
	} {
		d := &azure.Description{}
		var err error
		for _, x := range c.documents {
			if err == nil {
				err = d.Add(name, encoded(t, x))
			}
		}
		if err == nil {
			err = d.Check()
		}
		if err == nil {
			_, err = d.Account(subscription, nil, time.Now).Observe(t.Context(), inRegion)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", name, err, c.want)
		}
	}
}

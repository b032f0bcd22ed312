package arm_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/nephele-io/nephele/internal/sim/arm"
)

// TestListOfResources: all resources of a subscription and of a resource group, page by page, and
// resources of one type; an unknown filter is refused.
func TestListOfResources(t *testing.T) {
	l := newLab(t, options{config: func(c *arm.Config) { c.PageSize = 2 }})
	token, err := l.credentialOf(l.client, secret).GetToken(t.Context(), policy.TokenRequestOptions{Scopes: []string{"https://management.core.windows.net//.default"}})
	if err != nil {
		t.Fatal(err)
	}
	list := func(at, filter string) (ids map[string]string, status int) {
		ids = map[string]string{}
		next := l.server.URL + at + "?" + url.Values{"api-version": {"2021-04-01"}, "$filter": {filter}}.Encode()
		for next != "" {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, next, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+token.Token)
			res, err := l.server.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			var page struct {
				Value []struct {
					ID, Type   string
					Properties any
				}
				NextLink string
			}
			err = json.NewDecoder(res.Body).Decode(&page)
			_ = res.Body.Close()
			if res.StatusCode != http.StatusOK {
				return nil, res.StatusCode
			}
			if err != nil || len(page.Value) > 2 {
				t.Fatalf("%d on a page: %v", len(page.Value), err)
			}
			for _, r := range page.Value {
				if r.Properties != nil {
					t.Errorf("%s has properties", r.ID)
				}
				ids[r.ID] = r.Type
			}
			next = page.NextLink
		}
		return ids, http.StatusOK
	}
	all, _ := list("/subscriptions/"+subscription+"/resources", "")
	if all[l.web] != "Microsoft.Compute/virtualMachines" || all[l.nsgWeb] != "Microsoft.Network/networkSecurityGroups" || all[l.vnet] == "" {
		t.Errorf("%v", all)
	}
	shop, _ := list("/subscriptions/"+subscription+"/resourceGroups/shop/resources", "")
	if len(shop) == 0 || len(shop) > len(all) || shop[l.web] == "" {
		t.Errorf("of the group: %v", shop)
	}
	vms, _ := list("/subscriptions/"+subscription+"/resources", "resourceType eq 'microsoft.compute/virtualmachines'")
	if len(vms) == 0 || len(vms) >= len(all) || vms[l.web] == "" {
		t.Errorf("machines: %v", vms)
	}
	if _, status := list("/subscriptions/"+subscription+"/resources", "tagName eq 'x'"); status != http.StatusBadRequest {
		t.Errorf("an unknown filter: %d", status)
	}
	if _, status := list("/subscriptions/"+subscription+"/resourceGroups/none/resources", ""); status != http.StatusNotFound {
		t.Errorf("an unknown group: %d", status)
	}
	if _, status := list("/subscriptions/00000000-0000-0000-0000-00000000dead/resources", ""); status == http.StatusOK {
		t.Error("a subscription that is not there is listed")
	}
}

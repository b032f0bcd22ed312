package cloud

import "testing"

// TestShortIDs: paths of Azure are written so that people can read them, wherever they stand in a
// sentence; everything else stays.
func TestShortIDs(t *testing.T) {
	t.Parallel()
	const base = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/rg-shop/providers/"
	for text, want := range map[string]string{
		base + "Microsoft.Network/networkInterfaces/web-1-nic":                                               "rg-shop/web-1-nic",
		base + "microsoft.network/virtualNetworks/shop/subnets/front":                                        "rg-shop/shop/front",
		"westeurope/" + base + "Microsoft.Compute/virtualMachines/web-1: refused":                            "westeurope/rg-shop/web-1: refused",
		"[" + base + "Microsoft.Network/networkSecurityGroups/a " + base + "M.N/x/b], (" + base + "M.N/x/c)": "[rg-shop/a rg-shop/b], (rg-shop/c)",
		`"` + base + `Microsoft.Network/networkInterfaces/web-1"; and so on`:                                 `"rg-shop/web-1"; and so on`,
		"eni-0123456789abcdef0 of i-1":                                                                       "eni-0123456789abcdef0 of i-1",
		"10.0.0.0/8 and vms/shop":                                                                            "10.0.0.0/8 and vms/shop",
		"/subscriptions/s/resourceGroups/rg":                                                                 "/subscriptions/s/resourceGroups/rg",
		"":                                                                                                   "",
	} {
		if got := ShortIDs(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	if got := AndMore(7, "nephele plan --all"); got != "and 7 more (nephele plan --all names all)" || AndMore(0, "x") != "" {
		t.Errorf("%q", got)
	}
}

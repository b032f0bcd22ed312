package estate

import "testing"

func TestTry(t *testing.T) {
	for _, p := range []string{"data/hybrid-cloud", "../../../testdata/aws/web-tier", "../../../testdata/aws/collector-sg1.json"} {
		_, r, err := Load(p)
		t.Log(r, err)
	}
}

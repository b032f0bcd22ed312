package estate

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestCollectorWithoutRegion: the region of a dump whose VPCs do not name it is that of its zones;
// where these do not tell either, that is said.
func TestCollectorWithoutRegion(t *testing.T) {
	text, err := os.ReadFile("../../../testdata/aws/collector-sg1.json")
	if err != nil {
		t.Fatal(err)
	}
	without := regexp.MustCompile(`,\s*"Region": "eu-north-1"`).ReplaceAll(text, nil)
	if len(without) == len(text) {
		t.Fatal("the dump names no region")
	}
	load := func(text []byte) (string, error) {
		name := filepath.Join(t.TempDir(), "dump.json")
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		s, _, err := Load(name)
		if err != nil {
			return "", err
		}
		return s.Regions[0].Name, nil
	}
	if region, err := load(without); err != nil || region != "eu-north-1" {
		t.Errorf("region %q, %v", region, err)
	}
	zoneless := regexp.MustCompile(`"AvailabilityZone": "eu-north-1[a-z]"`).ReplaceAll(without, []byte(`"AvailabilityZone": ""`))
	if region, err := load(zoneless); err == nil {
		t.Errorf("region %q of nothing", region)
	}
}

package statefile_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/statefile"
	"github.com/nephele-io/nephele/internal/sim/world"
)

func TestSaveAndLoad(t *testing.T) {
	w, err := world.New(aws.State{Accounts: []aws.Account{{ID: "111111111111", Regions: []string{"eu-west-1"}}}}, world.Options{Seed: 7, Clock: func() time.Time { return time.Unix(1_800_000_000, 0).UTC() }})
	if err != nil {
		t.Fatal(err)
	}
	r, err := w.Region("111111111111", "eu-west-1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Networks().CreateVPC(aws.CreateVPCInput{CIDR: "10.0.0.0/16"}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "sim.json")
	for range 2 { // the second one replaces a file
		if err := statefile.Save(w, path); err != nil {
			t.Fatal(err)
		}
	}
	again, err := statefile.Load(path, world.Options{Seed: 99})
	if err != nil {
		t.Fatal(err)
	}
	x, errX := json.Marshal(w.State())
	y, errY := json.Marshal(again.State())
	if errX != nil || errY != nil || string(x) != string(y) || !strings.Contains(string(x), "10.0.0.0/16") {
		t.Errorf("the loaded state differs:\n%s %v\n%s %v", x, errX, y, errY)
	}
	if left, _ := filepath.Glob(path + "*"); len(left) != 1 {
		t.Errorf("files left behind: %v", left)
	}
	if _, err := statefile.Load(path+"x", world.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	for content, want := range map[string]string{"{": "is not a saved state", `{"a": 1}`: "is not a saved state", `{"version": 2, "accounts": [{"id": "111111111111"}]}`: "reads version 1"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := statefile.Load(path, world.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("load %q: %v, want %q", content, err, want)
		}
	}
	if err := statefile.Save(w, filepath.Join(path, "no", "folder")); err == nil {
		t.Error("saved into a folder that does not exist")
	}
}

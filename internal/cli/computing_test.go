package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
)

const someKubeconfig = `{"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c"}}],
"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}]}`

// TestControllerFlags: flags that contradict one another are refused before anything is called.
func TestControllerFlags(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(someKubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--antrea --antrea-kubeconfig f":                     "--antrea and --antrea-kubeconfig",
		"--antrea --api 127.0.0.1:0 --api-cert-dir d":        "--api serves what is computed here",
		"--antrea-kubeconfig f --api :0 --api-cert-dir d":    "--api serves what is computed here",
		"--antrea-member":                                    "--antrea-member is for",
		"--antrea --no-clouds":                               "--no-clouds leaves nothing to do",
		"--no-clouds":                                        "--no-clouds needs --api",
		"--api 127.0.0.1:0":                                  "--api-cert-dir",
		"--api 127.0.0.1:0 --api-cert-dir d --api-tls-dir e": "--api-cert-dir",
	} {
		cmd := NewControllerCommand()
		cmd.SetArgs(append(strings.Fields(args), "--kubeconfig", file))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", args, err, want)
		}
	}
}

// TestAntreaKubeconfig is read when it is needed, not before: it may come later, and change.
func TestAntreaKubeconfig(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	var f AntreaFlags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Register(flags)
	own := &rest.Config{Host: "own"}
	if config, err := f.Config(own); err != nil || config != nil {
		t.Errorf("without flags: a configuration %t, error %v; want none", config != nil, err)
	}
	if err := flags.Parse([]string{"--antrea-kubeconfig", file}); err != nil {
		t.Fatal(err)
	}
	config, err := f.Config(own)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config(); err == nil || !strings.Contains(err.Error(), "--antrea-kubeconfig "+file) {
		t.Errorf("error %v, want one that names flag and file", err)
	}
	if err := os.WriteFile(file, []byte(someKubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	if cfg, err := config(); err != nil || cfg.Host != "https://127.0.0.1:1" {
		t.Errorf("got %v, %v", cfg, err)
	}
}

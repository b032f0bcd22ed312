package demo

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/internal/sim/aws"
)

// The manifests of the story, in the order in which they are applied.
const (
	fileAccount  = "10-account.yaml"
	fileSelector = "20-selector.yaml"
	fileRoles    = "30-roles.yaml"
	fileNoSSH    = "40-no-ssh-from-outside.yaml"
	fileSwitches = "50-switches.yaml"
	fileMoved    = "60-core-01-is-cvp.yaml"
	fileAzure    = "70-azure-account.yaml"
	fileWebTier  = "80-web-tier.yaml"
	// fileDatabases is the policy for both clouds.
	fileDatabases = "90-database-tier.yaml"
)

// The manifests of the story of several clusters, besides the account and the selector.
const (
	fileSetRoles    = "set-30-roles.yaml"
	fileSetPods     = "set-40-pods.yaml"
	fileSetSwitches = "set-50-switches.yaml"
	fileSetNewPod   = "set-60-new-pod.yaml"
	fileSetMoved    = "set-70-core-01-is-a-switch.yaml"
)

//go:embed manifests/*.yaml
var embedded embed.FS

// login is what the manifest of the account must say about the simulator.
type login struct {
	Endpoint, Region, AccessKeyID, Secret string
	// Of the second cloud.
	Subscription, Tenant, ClientID, ClientSecret string
	Location, Network, AzureURL, AzureCA         string
}

func loginOf(endpoint string, s aws.State) (login, error) {
	for _, c := range s.Credentials {
		if c.SessionToken == "" {
			return login{Endpoint: endpoint, Region: region, AccessKeyID: c.AccessKeyID, Secret: c.Secret}, nil
		}
	}
	return login{}, fmt.Errorf("the simulated account has no access key")
}

// writeManifests writes the manifests of the story to dir, filled in. A policy that is there
// already is kept: the user may have edited it. What the simulator decides (its address, its keys)
// is written anew.
func writeManifests(dir string, l login, keep bool) error {
	return writeFiles(dir, l, keep, fileAccount, fileSelector, fileRoles, fileNoSSH, fileSwitches, fileMoved, fileAzure, fileWebTier, fileDatabases)
}

func writeFiles(dir string, l login, keep bool, names ...string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil && keep && name != fileAccount && name != fileAzure {
			continue
		}
		text, err := render(name, l)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// render fills in a manifest: the field Name takes the place of {{Name}}.
func render(name string, l login) ([]byte, error) {
	text, err := embedded.ReadFile("manifests/" + name)
	if err != nil {
		return nil, err
	}
	out := strings.NewReplacer(
		"{{Endpoint}}", l.Endpoint, "{{Region}}", l.Region, "{{AccessKeyID}}", l.AccessKeyID, "{{Secret}}", l.Secret,
		"{{Subscription}}", l.Subscription, "{{Tenant}}", l.Tenant, "{{ClientID}}", l.ClientID, "{{ClientSecret}}", l.ClientSecret,
		"{{Location}}", l.Location, "{{Network}}", l.Network, "{{AzureURL}}", l.AzureURL, "{{AzureCA}}", strconv.Quote(l.AzureCA),
	).Replace(string(text))
	if strings.Contains(out, "{{") {
		return nil, fmt.Errorf("manifests/%s has something else between {{ and }} than the name of a field", name)
	}
	return []byte(out), nil
}

// readManifest returns the objects of a file.
func readManifest(path string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for i, document := range bytes.Split(text, []byte("\n---\n")) {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &o.Object); err != nil {
			return nil, fmt.Errorf("%s, document %d: %w", path, i+1, err)
		}
		if len(o.Object) > 0 {
			out = append(out, o)
		}
	}
	return out, nil
}

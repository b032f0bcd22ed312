package checkcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/api/generated/crd"
	deployment "github.com/nephele-io/nephele/config/controller"
	"github.com/nephele-io/nephele/config/grants"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/cloud/accountspec"
	"github.com/nephele-io/nephele/internal/cloud/selection"
	"github.com/nephele-io/nephele/internal/controller/clouds"
	"github.com/nephele-io/nephele/internal/kinds"
	"github.com/nephele-io/nephele/internal/preflight"
)

// checkTimeout bounds a whole check.
const checkTimeout = 5 * time.Minute

// Needs are what the command takes from the others.
type Needs struct {
	// Register adds the flags that say which cluster it is and which endpoints of accounts may be
	// called; Config and Access return what they say.
	Register func(*pflag.FlagSet)
	Config   func() (*rest.Config, error)
	Access   func() (clouds.Access, error)
}

// Command is "check".
func Command(n Needs) *cobra.Command {
	var output, rights string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Find out whether everything is there that Nephele needs",
		Long: `Find out whether everything is there that Nephele needs: the API server and its version, definitions and admission policies,
your rights (or the rights of the controller's identity, if you run this as it), certificates, webhooks, clocks, and for each cloud
account whether its credentials are accepted, which permissions are missing, by name, and whether quotas are near.

Nothing is changed: permissions are tried with calls that do nothing (AWS: DryRun), or asked for (Azure). An account is tried if you may get its Secret, from
this machine; at an endpoint of its own only if --allowed-endpoints allows that.

Exit codes: 0 nothing fails; 1 something does; 2 the input is wrong.`,
		Example: `  nephele check
  nephele check --rights controller --kubeconfig controller.kubeconfig
  nephele check -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return fmt.Errorf("--output %q: want json, or nothing for text", output)
			}
			cfg, err := n.Config()
			if err != nil {
				return fmt.Errorf("finding the cluster: %w", err)
			}
			allowed, err := n.Access()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), checkTimeout)
			defer cancel()
			o, err := preflightOptions(ctx, cfg, rights, allowed)
			if err != nil {
				return err
			}
			return printLines(cmd.OutOrStdout(), preflight.Run(ctx, o), output)
		},
	}
	f := cmd.Flags()
	n.Register(f)
	f.StringVarP(&output, "output", "o", "", "json, or nothing for text")
	f.StringVar(&rights, "rights", "auditor", "the rights to hold you against: auditor (to read everything but Secrets) or controller")
	return cmd
}

func preflightOptions(ctx context.Context, cfg *rest.Config, rights string, access clouds.Access) (preflight.Options, error) {
	o := preflight.Options{Definitions: crd.FS(), Policies: grants.Policies(), Deletion: grants.DeletionPolicies(), Now: time.Now, Version: VersionOf(cfg)}
	var err error
	switch rights {
	case "auditor":
		o.Role = "nephele-auditor"
		var text []byte
		if text, err = fs.ReadFile(grants.FS(), "personas.yaml"); err == nil {
			o.Rights, err = rightsIn(text, "nephele-audit")
		}
	case "controller":
		o.Role = "nephele-controller"
		o.Rights, err = rightsIn(deployment.Role(), "nephele-controller")
	default:
		err = fmt.Errorf("--rights %q: want auditor or controller", rights)
	}
	if err != nil {
		return o, err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = 100, 200
	scheme, err := kinds.Scheme()
	if err != nil {
		return o, err
	}
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return o, fmt.Errorf("build the scheme: %w", err)
	}
	if o.ClientCertificate = cfg.CertData; len(o.ClientCertificate) == 0 && cfg.CertFile != "" {
		if o.ClientCertificate, err = os.ReadFile(cfg.CertFile); err != nil {
			return o, fmt.Errorf("reading the certificate of the kubeconfig: %w", err)
		}
	}
	if o.Client, err = client.New(cfg, client.Options{Scheme: scheme}); err != nil {
		return unreachable(o, err), nil
	}
	o.Place = func(a *cloudv1.CloudProviderAccount) (*cloudv1.SecretReference, []string) {
		c, ref := accountspec.ConfigOf(a)
		return ref, c.Regions
	}
	o.Open = func(a *cloudv1.CloudProviderAccount, credentials []byte) (preflight.Account, error) {
		id, err := clouds.ClusterID(ctx, o.Client)
		if err != nil {
			return nil, err
		}
		config, _ := accountspec.ConfigOf(a)
		row, supported := clouds.Of(config.Cloud)
		if !supported {
			return nil, errors.New("its cloud is not supported")
		}
		open, err := row.Open(ctx, clouds.Parts{Cluster: id, Access: access})
		if err != nil {
			return nil, err
		}
		config.SecretValue = credentials
		p, err := open(config)
		if err != nil {
			return nil, err
		}
		var selectors cloudv1.CloudEntitySelectorList
		if o.Client.List(ctx, &selectors) == nil {
			p = selection.Showing(p, slices.DeleteFunc(selectors.Items, func(s cloudv1.CloudEntitySelector) bool {
				return s.Spec.AccountNamespace != a.Namespace || s.Spec.AccountName != a.Name
			}))
		}
		account, ok := p.(preflight.Account)
		if !ok {
			return nil, errors.New("the account cannot be tried")
		}
		return account, nil
	}
	return o, nil
}

// unreachable makes a check say why there is no client.
func unreachable(o preflight.Options, err error) preflight.Options {
	o.Version = func(context.Context) (*version.Info, http.Header, error) { return nil, nil, err }
	return o
}

// VersionOf asks for the version of an API server, and returns the header of the answer too.
func VersionOf(cfg *rest.Config) func(context.Context) (*version.Info, http.Header, error) {
	return func(ctx context.Context) (*version.Info, http.Header, error) {
		c, err := rest.HTTPClientFor(cfg)
		if err != nil {
			return nil, nil, err
		}
		base, _, err := rest.DefaultServerUrlFor(cfg)
		if err != nil {
			return nil, nil, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("version").String(), nil)
		if err != nil {
			return nil, nil, err
		}
		resp, err := c.Do(req)
		if err != nil {
			return nil, nil, err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil, nil, fmt.Errorf("GET %s: %s", req.URL, resp.Status)
		}
		var info version.Info
		const most = 64 << 10
		if err := json.NewDecoder(io.LimitReader(resp.Body, most)).Decode(&info); err != nil {
			return nil, nil, fmt.Errorf("GET %s: %w", req.URL, err)
		}
		return &info, resp.Header, nil
	}
}

// rightsIn are the rights that a ClusterRole in manifests gives, but for those to single objects.
func rightsIn(manifests []byte, role string) ([]preflight.Right, error) {
	var out []preflight.Right
	for d := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), len(manifests)); ; {
		var r rbacv1.ClusterRole
		if err := d.Decode(&r); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("role %s: %w", role, err)
		}
		if r.Kind != "ClusterRole" || r.Name != role {
			continue
		}
		for _, rule := range r.Rules {
			if len(rule.ResourceNames) > 0 {
				continue
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						out = append(out, preflight.Right{Group: group, Resource: resource, Verb: verb})
					}
				}
			}
		}
	}
}

// printLines prints what was found; that something fails is the answer no.
func printLines(out io.Writer, lines []preflight.Line, format string) error {
	failed := 0
	for _, l := range lines {
		if l.Verdict == preflight.Fail {
			failed++
		}
	}
	if format == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		if err := enc.Encode(lines); err != nil {
			return err
		}
	} else {
		for _, l := range lines {
			fmt.Fprintln(out, terminal.Folded(fmt.Sprintf("%-5s", l.Verdict), "      ", terminal.Printable(l.About+": "+l.Message)))
			if l.Do != "" && l.Verdict != preflight.OK {
				fmt.Fprintln(out, terminal.Folded("      to do: ", "      ", terminal.Printable(l.Do)))
			}
		}
		if failed > 0 {
			fmt.Fprintf(out, "\n%s. Nothing was changed.\n", strings.TrimSpace(terminal.Plural(failed, "check fails", "checks fail")))
		} else {
			fmt.Fprint(out, "\nNothing fails. Nothing was changed.\n")
		}
	}
	if failed > 0 {
		return terminal.ErrNo
	}
	return nil
}

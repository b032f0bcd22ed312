package simcmd

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// simAzureFlags are the flags of nephele sim that are about Azure.
type simAzureFlags struct {
	estate, listen string
	delay, lag     time.Duration
}

func (f *simAzureFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.estate, "azure", "", "file or folder with answers of Azure Resource Manager or Resource Graph; adds an Azure side")
	flags.StringVar(&f.listen, "azure-listen", "127.0.0.1:8556", "address to serve Azure's login and Resource Manager on, with TLS; port 0 takes a free one")
	flags.DurationVar(&f.delay, "azure-operation-delay", 0, "how long operations on Azure network resources take")
	flags.DurationVar(&f.lag, "azure-graph-lag", 0, "how far Azure Resource Graph is behind")
}

func (f *simAzureFlags) check() error {
	for name, d := range map[string]time.Duration{"azure-operation-delay": f.delay, "azure-graph-lag": f.lag} {
		if d < 0 {
			return fmt.Errorf("--%s is %s, expected a duration of zero or more", name, d)
		}
	}
	return nil
}

func (f *simAzureFlags) options() sim.AzureOptions {
	return sim.AzureOptions{Listen: f.listen, OperationDelay: f.delay, GraphLag: f.lag}
}

// load adds the Azure side to a state.
func (f *simAzureFlags) load(cmd *cobra.Command, state *aws.State, quiet bool) error {
	if f.estate == "" {
		return nil
	}
	s, report, err := estate.LoadAzure(f.estate)
	if err != nil {
		return fmt.Errorf("--azure: %w", err)
	}
	state.Azure = &s
	if !quiet {
		var lines []string
		for _, g := range report.Gaps {
			lines = append(lines, g.String())
		}
		const most = 10
		if more := len(lines) - most; more > 0 {
			lines = append(lines[:most], fmt.Sprintf("and %d more that the description does not tell", more))
		}
		terminal.Notes(cmd, lines)
	}
	return nil
}

// announceAzure prints what a person needs to use the Azure side.
func announceAzure(out io.Writer, server *sim.Server) {
	if server.AzureURL() == "" {
		return
	}
	var s azure.State
	server.World().ReadAzure(func(c *azure.Cloud, _ time.Time) { s = c.State() })
	fmt.Fprintf(out, "\n  Azure     %s (login and Resource Manager; certificate: %s/_sim/azure/ca.pem)\n", server.AzureURL(), server.URL())
	for _, x := range s.Subscriptions {
		fmt.Fprintf(out, "    subscription %s, tenant %s: %d resources\n", x.ID, x.Tenant, resourcesOf(s, x.ID))
	}
	for _, p := range s.Principals {
		if len(p.Secrets) > 0 {
			fmt.Fprintf(out, "    client  %s, secret %s (tenant %s)\n", p.ClientID, p.Secrets[0], p.Tenant)
		}
	}
	if len(s.Principals) == 0 || len(s.Subscriptions) == 0 || len(s.Principals[0].Secrets) == 0 {
		return
	}
	p := s.Principals[0]
	fmt.Fprintf(out, `
Point an Azure client at it:

  curl -so azure-ca.pem %[1]s/_sim/azure/ca.pem
  export REQUESTS_CA_BUNDLE=$PWD/azure-ca.pem SSL_CERT_FILE=$PWD/azure-ca.pem AZURE_CORE_INSTANCE_DISCOVERY=false
  az cloud register -n nephele --endpoint-active-directory %[2]s/adfs --endpoint-resource-manager %[2]s \
    --endpoint-active-directory-resource-id https://management.core.windows.net/ --endpoint-management %[2]s \
    --endpoint-active-directory-graph-resource-id https://graph.windows.net/
  az cloud set -n nephele
  az login --service-principal -u %[3]s -p %[4]s --tenant %[5]s
  az network nsg list
`, server.URL(), server.AzureURL(), p.ClientID, p.Secrets[0], p.Tenant)
}

func resourcesOf(s azure.State, subscription string) int {
	n := 0
	for i := range s.Resources {
		if id, _ := document.ParseID(s.Resources[i].ID); strings.EqualFold(id.Subscription, subscription) {
			n++
		}
	}
	return n
}

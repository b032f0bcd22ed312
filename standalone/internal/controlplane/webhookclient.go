package controlplane

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	webhookadmission "k8s.io/apiserver/pkg/admission/plugin/webhook/config/apis/webhookadmission/v1"
	apiserver "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/internal/platform/certs"
)

// The files in pki/ that tell the API server to prove itself to admission webhooks, and how.
const (
	admissionFile     = "admission.yaml"
	webhookKubeconfig = "webhooks.kubeconfig"
)

// apiserverConfig is the version of the API server's configuration files.
const apiserverConfig = "apiserver.config.k8s.io/v1"

// WebhookClientCA is the path of the authority of the certificate that the API server of a data
// directory shows to admission webhooks. It is there while a control plane runs, and signs nothing
// else.
func WebhookClientCA(dir string) string {
	return filepath.Join((&dataDir{path: dir}).pki(), webhookAuthority+".crt")
}

// writeAdmission tells the API server to prove itself to every admission webhook. It returns the
// path of what says so.
func (c *credentials) writeAdmission() (string, error) {
	users := clientcmdapi.NewConfig()
	// The star represents every webhook. A certificate can be shown to anybody: it does not let him
	// pretend anything.
	users.AuthInfos["*"] = &clientcmdapi.AuthInfo{ClientCertificate: c.store.CertFile(webhookClientCert), ClientKey: c.store.KeyFile(webhookClientCert)}
	// An Antrea Controller that computes in place of ours knows nothing of the authority, and
	// refuses callers whose certificate it cannot verify.
	users.AuthInfos["antrea.kube-system.svc:443"] = &clientcmdapi.AuthInfo{}
	kubeconfig, err := clientcmd.Write(*users)
	if err != nil {
		return "", fmt.Errorf("encode the credentials for webhooks: %w", err)
	}
	at := filepath.Join(c.dir.pki(), webhookKubeconfig)
	if err := certs.WriteFile(at, kubeconfig, 0o600); err != nil {
		return "", fmt.Errorf("write the credentials for webhooks: %w", err)
	}
	webhooks, err := json.Marshal(webhookadmission.WebhookAdmission{
		TypeMeta: metav1.TypeMeta{APIVersion: apiserverConfig, Kind: "WebhookAdmissionConfiguration"}, KubeConfigFile: at,
	})
	if err != nil {
		return "", fmt.Errorf("encode the configuration of admission: %w", err)
	}
	config := apiserver.AdmissionConfiguration{TypeMeta: metav1.TypeMeta{APIVersion: apiserverConfig, Kind: "AdmissionConfiguration"}}
	for _, plugin := range []string{"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"} {
		config.Plugins = append(config.Plugins, apiserver.AdmissionPluginConfiguration{Name: plugin, Configuration: &runtime.Unknown{Raw: webhooks}})
	}
	raw, err := yaml.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("encode the configuration of admission: %w", err)
	}
	path := filepath.Join(c.dir.pki(), admissionFile)
	if err := certs.WriteFile(path, raw, 0o600); err != nil {
		return "", fmt.Errorf("write the configuration of admission: %w", err)
	}
	return path, nil
}

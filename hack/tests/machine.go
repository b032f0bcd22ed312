package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// programs are the programs without which tests skip themselves, or parts of themselves. The
// daemon of strongSwan and its plugins are in no directory of PATH.
var programs = []string{
	"chromium", "chromium-browser", "google-chrome", "cosign", "git", "helm", "ip", "kubectl", "make", "nft", "node", "npm", "openssl", "setpriv", "swanctl", "systemd-analyze", "tc",
	"/usr/sbin/charon-systemd", "/usr/libexec/ipsec/charon", "/usr/lib/ipsec/charon",
	"/usr/lib/ipsec/plugins/libstrongswan-openssl.so", "/usr/lib/ipsec/plugins/libstrongswan-kernel-libipsec.so",
}

// machine identifies what tests find on the machine: the kernel, the rights of the user and
// programs.
func machine(there func(program string) bool) string {
	h := sha256.New()
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // elsewhere there is one kernel for each system
	fmt.Fprintln(h, runtime.GOOS, string(kernel), os.Geteuid() == 0)
	for _, name := range programs {
		fmt.Fprintln(h, name, there(name))
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// isInstalled finds a path, or a program in PATH.
func isInstalled(program string) bool {
	if filepath.IsAbs(program) {
		_, err := os.Stat(program)
		return err == nil
	}
	_, err := exec.LookPath(program)
	return err == nil
}

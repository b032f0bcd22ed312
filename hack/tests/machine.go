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

// programs are the programs and plugins without which tests skip themselves, or parts of
// themselves.
var programs = []string{
	"awk", "bash", "chromium", "chromium-browser", "cosign", "curl", "dpkg-deb", "git", "google-chrome", "ip", "kubectl", "make", "nft", "node", "npm", "openssl", "setpriv", "swanctl", "systemd-analyze", "tcpdump",
	"/usr/sbin/charon-systemd", "/usr/libexec/ipsec/charon", "/usr/lib/ipsec/charon",
	"/usr/lib/ipsec/plugins/libstrongswan-openssl.so", "/usr/lib/ipsec/plugins/libstrongswan-kernel-libipsec.so",
	"/usr/lib/strongswan/plugins/libstrongswan-openssl.so", "/usr/lib/strongswan/plugins/libstrongswan-kernel-libipsec.so",
	"/usr/lib64/strongswan/plugins/libstrongswan-openssl.so", "/usr/lib64/strongswan/plugins/libstrongswan-kernel-libipsec.so",
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

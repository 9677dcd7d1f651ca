//go:build linux

package eksnode_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	eksnode "github.com/eksnode/packer-plugin-eksnode"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// mount returns a folder with the files of an image. The caller removes the folder.
func mount(files map[string]string) string {
	root, err := os.MkdirTemp("", "image-")
	if err != nil {
		log.Fatal(err)
	}
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			log.Fatal(err)
		}
	}
	return root
}

// Audit a mounted image: what would a new instance inherit?
func ExampleAudit() {
	root := mount(map[string]string{
		"etc/os-release": "ID=ubuntu\nVERSION_ID=24.04\n",
		"etc/passwd":     "root:x:0:0:root:/root:/bin/bash\n",
		"var/lib/kubelet/pki/kubelet-client-current.pem": "the old certificate\n",
		"etc/machine-id": "0123456789abcdef0123456789abcdef\n",
	})
	defer os.RemoveAll(root)

	image, err := host.Mounted(root)
	if err != nil {
		log.Fatal(err)
	}
	defer image.Close()
	report, err := eksnode.Audit(context.Background(), image, scrub.Spec{Only: []string{"kubelet-pki", "machine-id"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Machine.Distro, report.Machine.Version, report.Result)
	for _, item := range report.Plan {
		for _, action := range item.Actions {
			fmt.Println(item.Item, action.Verb, action.Target)
		}
	}
	// Output:
	// ubuntu 24.04 findings
	// kubelet-pki remove /var/lib/kubelet/pki/kubelet-client-current.pem
	// machine-id empty /etc/machine-id
}

// Scrub a mounted image with a rule of your own.
func ExampleScrub() {
	root := mount(map[string]string{
		"etc/os-release":        "ID=debian\nVERSION_ID=12\n",
		"etc/passwd":            "root:x:0:0:root:/root:/bin/bash\n",
		"opt/enroll/id":         "4711\n",
		"opt/enroll/enroll.cfg": "server = enroll.example.com\n",
	})
	defer os.RemoveAll(root)

	rules, err := scrub.ParseRules("own.yaml", []byte(`rules:
- id: enrollment
  phase: identity
  action: remove
  paths: [/opt/enroll/*]
  keep: [/opt/enroll/enroll.cfg]
  why: every instance would be the same machine for the inventory
`))
	if err != nil {
		log.Fatal(err)
	}
	image, err := host.Mounted(root)
	if err != nil {
		log.Fatal(err)
	}
	defer image.Close()
	report, err := eksnode.Scrub(context.Background(), image, scrub.Spec{Own: rules, Only: []string{"enrollment"}}, eksnode.Options{})
	if err != nil {
		log.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Join(root, "opt/enroll"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Result, report.Totals.Actions, left[0].Name())
	// Output: ok 1 enroll.cfg
}

// Plan a provision for a distribution, without a machine.
func ExamplePlan() {
	planned, err := eksnode.Plan(context.Background(),
		provisioner.Spec{KubernetesVersion: "1.34.4", Packages: []string{"chrony"}},
		eksnode.Machine{Distro: "debian", Version: "12", Arch: "arm64"})
	if err != nil {
		log.Fatal(err)
	}
	for _, step := range planned {
		if step.Item == "packages" || step.Item == "kubelet" {
			fmt.Println(step.Item, step.Actions[0].Verb, step.Actions[0].Target)
		}
	}
	// Output:
	// packages run apt-get update
	// kubelet fetch /usr/bin/kubelet
}

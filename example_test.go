//go:build linux

package eksnode_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	eksnode "github.com/eksnode/packer-plugin-eksnode"
	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
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

// mounted is an image as in ExampleAudit.
func mounted(files map[string]string) (image *host.Host, remove func()) {
	root := mount(files)
	image, err := host.Mounted(root)
	if err != nil {
		log.Fatal(err)
	}
	return image, func() { _, _ = image.Close(), os.RemoveAll(root) }
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
	report, err := eksnode.Audit(context.Background(), image,
		scrub.Spec{Only: []string{"kubelet-pki", "machine-id"}}, eksnode.Options{})
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

// Audit a folder with an unpacked image, and print the report as JSON.
func ExampleAudit_json() {
	image, remove := mounted(map[string]string{
		"etc/os-release": "ID=debian\nVERSION_ID=12\n",
		"etc/passwd":     "root:x:0:0:root:/root:/bin/bash\n",
		"etc/machine-id": "0123456789abcdef0123456789abcdef\n",
	})
	defer remove()
	report, err := eksnode.Audit(context.Background(), image,
		scrub.Spec{Only: []string{"machine-id"}}, eksnode.Options{})
	if err != nil {
		log.Fatal(err)
	}
	text, err := plan.EncodeJSON(report.Plan)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("exit code", report.Result.ExitCode())
	fmt.Print(string(text))
	// Output:
	// exit code 1
	// [
	//   {
	//     "item": "machine-id",
	//     "phase": "identity",
	//     "actions": [
	//       {
	//         "verb": "empty",
	//         "target": "/etc/machine-id",
	//         "reason": "this machine's ID; every node would have the same ID",
	//         "entries": 0,
	//         "bytes": 33
	//       }
	//     ]
	//   }
	// ]
}

// printed is a plan.Sink that prints each rule when it has ended.
type printed struct{}

func (printed) Begin(string, string, int)                  {}
func (printed) Progress(string, plan.Action, int64, int64) {}
func (printed) End(o plan.Outcome)                         { fmt.Println(o.Phase, o.Item, o.Status) }

// Follow an audit with a sink of your own.
func ExampleAudit_sink() {
	image, remove := mounted(map[string]string{
		"etc/os-release": "ID=debian\nVERSION_ID=12\n",
		"etc/passwd":     "root:x:0:0:root:/root:/bin/bash\n",
	})
	defer remove()
	_, err := eksnode.Audit(context.Background(), image,
		scrub.Spec{Only: []string{"secrets-left", "machine-id"}}, eksnode.Options{Sink: printed{}})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// identity machine-id unchanged
	// inspect secrets-left unchanged
}

// Scrub a mounted image with a rule of your own, written in Go.
func ExampleScrub() {
	const id = "/opt/enroll/id"
	image, remove := mounted(map[string]string{
		"etc/os-release": "ID=debian\nVERSION_ID=12\n",
		"etc/passwd":     "root:x:0:0:root:/root:/bin/bash\n",
		id:               "serial 4711\n",
	})
	defer remove()

	enrollment := scrub.Rule{
		ID: "enrollment", Phase: scrub.Identity, Owner: "enroll",
		Paths: []string{id},
		Why:   "every instance would be the same machine for the inventory",
		Look: func(d *scrub.Draft) {
			if strings.HasPrefix(string(d.Content(d.Paths[0])), "serial ") { // no text if there is no such file
				d.Remove(d.Paths[0], "it names the builder machine")
			}
		},
	}
	report, err := eksnode.Scrub(context.Background(), image, scrub.Spec{Only: []string{"enrollment"}},
		eksnode.Options{Rules: []scrub.Rule{enrollment}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Result, report.Outcomes[0].Actions[0].Target)
	// Output: ok /opt/enroll/id
}

// Scrub a mounted image with a rule file.
func ExampleScrub_ruleFile() {
	image, remove := mounted(map[string]string{
		"etc/os-release":        "ID=debian\nVERSION_ID=12\n",
		"etc/passwd":            "root:x:0:0:root:/root:/bin/bash\n",
		"opt/enroll/id":         "4711\n",
		"opt/enroll/enroll.cfg": "server = enroll.example.com\n",
	})
	defer remove()

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
	report, err := eksnode.Scrub(context.Background(), image, scrub.Spec{Own: rules, Only: []string{"enrollment"}}, eksnode.Options{})
	if err != nil {
		log.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Join(image.Root(), "opt/enroll"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Result, report.Totals.Actions, left[0].Name())
	// Output: ok 1 enroll.cfg
}

// Plan a provision for a distribution, without a machine.
func ExamplePlan() {
	debian, err := distros.ByID("debian")
	if err != nil {
		log.Fatal(err)
	}
	planned, err := eksnode.Plan(context.Background(),
		provisioner.Spec{KubernetesVersion: "1.34.4", Packages: []string{"chrony"}},
		eksnode.Machine{Distro: debian, Version: "12", Arch: "arm64"})
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

// Plan for a distribution of your own: a known one with other values, or a value
// whose fields are the constructors of package distros.
func ExamplePlan_ownDistribution() {
	own, err := distros.ByID("fedora")
	if err != nil {
		log.Fatal(err)
	}
	own.ID, own.Name, own.OSRelease = "examplelinux", "Example Linux", []string{"examplelinux"}
	own.Versions, own.Releases = []string{"7"}, map[string]distros.ReleaseFacts{"7": {Containerd: "2.1"}}
	own.Network, own.Quirks = distros.Networkd(), []distros.Quirk{distros.ResolvedStub()}

	own.CASuffix = ""
	fmt.Println(own.Validate())
	own.CASuffix = ".pem"

	planned, err := eksnode.Plan(context.Background(), provisioner.Spec{KubernetesVersion: "1.34.4"},
		eksnode.Machine{Distro: own, Version: "7", Arch: "amd64"})
	if err != nil {
		log.Fatal(err)
	}
	for _, step := range planned {
		if step.Item == "packages" {
			fmt.Println(step.Actions[0].Target)
		}
	}
	// Output:
	// distribution "examplelinux": CASuffix is empty
	// dnf makecache
}

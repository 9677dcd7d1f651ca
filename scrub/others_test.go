//go:build linux

package scrub_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	eksnode "github.com/eksnode/packer-plugin-eksnode"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// kind is what an explanation explains.
type kind int

const (
	differ kind = iota // a difference of the scrubbed machine from its twin
	carry              // a mark that stays
	report             // a finding of the audit after the scrub
	ship               // a difference of the scrubbed twin from the twin
)

// explanation says why something about these machines stays. The pattern is for
// the whole line without the part after ": ". "*" matches within a name, "**"
// also across folders.
type explanation struct {
	kind     kind
	machines string // names, separated by blanks
	pattern  string
	why      string
}

func (e explanation) of(machine string) bool {
	return slices.Contains(strings.Fields(e.machines), machine)
}

func (e explanation) explains(line string) bool {
	line, _, _ = strings.Cut(line, ": ")
	expression := strings.NewReplacer(`\*\*`, `.*`, `\*`, `[^/]*`).Replace(regexp.QuoteMeta(e.pattern))
	return regexp.MustCompile(`^` + expression + `$`).MatchString(line)
}

// explained returns the lines that no explanation explains. An explanation that
// explains no line fails the test: it hides a later mistake.
func explained(t *testing.T, machine string, lines []string, k kind) (left []string) {
	t.Helper()
	used := map[int]bool{}
	for _, line := range lines {
		known := false
		for n, e := range explanations {
			if e.kind == k && e.of(machine) && e.explains(line) {
				used[n], known = true, true
			}
		}
		if !known {
			left = append(left, line)
		}
	}
	for n, e := range explanations {
		if e.kind == k && e.of(machine) {
			assert.True(t, used[n], "%s: nothing is %q any more: delete its explanation", machine, e.pattern)
		}
	}
	return left
}

func TestEveryExplanationHasAMachineAndAReason(t *testing.T) {
	for _, e := range explanations {
		assert.NotEmpty(t, e.why, e.pattern)
		assert.NotEmpty(t, strings.Fields(e.machines), e.pattern)
		for _, name := range strings.Fields(e.machines) {
			assert.Contains(t, machines, name, e.pattern)
		}
	}
}

const (
	logging       = withCloudInit
	everywhere    = "agents amazonlinux2 amazonlinux2023 arch control-plane flatcar image-builder rhel-cis ubuntu-snap"
	manned        = "amazonlinux2 amazonlinux2023 arch control-plane image-builder rhel-cis ubuntu-snap"
	withCloudInit = "agents amazonlinux2 amazonlinux2023 arch control-plane image-builder rhel-cis ubuntu-snap"
)

// explanations is the list for all machines.
var explanations = []explanation{
	{differ, logging, "+ /var/log/** (empty)", "log files are emptied and stay, with their mode, owner and label"},
	{differ, everywhere, "+ /etc/.pwd.lock (empty)", "the lock of the account files, without content"},
	{differ, everywhere, "+ /etc/.updated", "the time of the last update of /usr; systemd-update-done writes it at boot"},
	{differ, everywhere, "+ /var/.updated", "the time of the last update of /usr; systemd-update-done writes it at boot"},
	{differ, manned, "+ /root/.selected_editor", "the choice of an editor names nobody"},
	{differ, "amazonlinux2 amazonlinux2023 arch flatcar control-plane image-builder", "+ /opt/cni/bin/*", "programs of the network plugin; its daemon replaces them when it starts"},
	{differ, "amazonlinux2 amazonlinux2023", "+ /etc/systemd/system/multi-user.target.wants/containerd.service", "containerd starts without a cluster, and each first boot enables it again"},
	{differ, "amazonlinux2", "- /etc/systemd/system/kubelet.service", "bootstrap.sh had replaced the unit by a copy of kubelet-containerd.service; each first boot copies it again"},
	{differ, "amazonlinux2", "+ /var/spool/at/.SEQ", "at refuses jobs without the file"},
	{differ, "amazonlinux2023 arch rhel-cis", "+ /boot/loader/entries/ffffffffffffffffffffffffffffffff-*.conf", "the entry of an updated kernel, without the machine ID"},
	{differ, "rhel-cis", "+ /boot/vmlinuz-5.14.0-580.el9.x86_64", "an updated kernel"},
	{differ, "rhel-cis", "+ /boot/vmlinuz-0-rescue-ffffffffffffffffffffffffffffffff", "the rescue kernel, without the machine ID"},
	{differ, "rhel-cis", "+ /boot/initramfs-0-rescue-ffffffffffffffffffffffffffffffff.img", "the initrd of the rescue kernel, without the machine ID"},
	{differ, "rhel-cis", "~ /boot/grub2/grubenv", "GRUB starts the updated kernel, by the neutral name"},
	{differ, "rhel-cis", "+ /etc/pki/tls/certs/*.crt", "a certificate beside a key that the audit reports"},
	{differ, "rhel-cis", "+ /var/lib/certmonger/cas/*", "the organisation's certificate authorities are configuration"},
	{carry, "rhel-cis", "/var/lib/certmonger/cas/*", "the organisation's certificate authorities are configuration"},
	{differ, "rhel-cis", "+ /var/lib/NetworkManager/NetworkManager.state", "the switches of networking and radio, which are on"},
	{differ, "rhel-cis", "+ /var/lib/aide/aide.db.gz", "AIDE's reference of the image; its owner renews it with aide --init after the scrub"},
	{differ, "rhel-cis", "+ /var/lib/plymouth/boot-duration", "the duration of a boot, for the progress bar"},
	{differ, "amazonlinux2023", "+ /var/lib/containerd/io.containerd.content.v1.content/**", "containerd does not run in an image root, and the rule containers reports its containers; images stay as a cache"},
	{carry, "amazonlinux2023", "/var/lib/containerd/io.containerd.content.v1.content/**", "containerd does not run in an image root, and the rule containers reports its containers; images stay as a cache"},
	{differ, "amazonlinux2023", "+ /var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/**", "containerd does not run in an image root, and the rule containers reports its containers; images stay as a cache"},
	{carry, "amazonlinux2023", "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/**", "containerd does not run in an image root, and the rule containers reports its containers; images stay as a cache"},
	{differ, "amazonlinux2023", "+ /var/lib/containerd/io.containerd.grpc.v1.cri/**", "containerd does not run in an image root, and the rule containers reports its containers; images stay as a cache"},
	{carry, "amazonlinux2023", "/var/lib/containerd/io.containerd.grpc.v1.cri/**", "containerd does not run in an image root, and the rule containers reports its containers; images stay as a cache"},
	{differ, "amazonlinux2023", "~ /var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db", "containerd does not run in an image root, and the rule containers reports its containers; images stay as a cache"},
	{carry, "amazonlinux2023", "/var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db", "containerd does not run in an image root, and the rule containers reports its containers; images stay as a cache"},
	{differ, "amazonlinux2023", "+ /var/lib/soci-snapshotter-grpc/**", "the images of the SOCI snapshotter belong to those of containerd"},
	{carry, "amazonlinux2023", "/var/lib/soci-snapshotter-grpc/snapshotter/metadata.db", "the images of the SOCI snapshotter belong to those of containerd"},
	{report, "amazonlinux2023", "containers container k8s.io/*", "containerd does not run in an image root"},
	{report, "amazonlinux2023", "containers sandbox k8s.io/*", "containerd does not run in an image root"},
	{differ, "agents", "+ /etc/salt/pki/minion/minion_master.pub", "the trust in the master, which the image keeps on purpose"},
	{differ, "agents", "+ /var/lib/prometheus/node-exporter/apt.prom", "a metric that a timer writes again; it names no machine"},
	{differ, "agents", "+ /var/opt/ds_agent/dsa_core/*", "reported with ds_agent_dsm.crt: dsa_control -r removes them"},
	{carry, "agents", "/var/opt/ds_agent/dsa_core/*", "reported with ds_agent_dsm.crt: dsa_control -r removes them"},
	{differ, "agents", "+ /var/opt/microsoft/mdatp/**", "reported with mdatp_onboard.json: offboarding removes them"},
	{carry, "agents", "/var/opt/microsoft/mdatp/**", "reported with mdatp_onboard.json: offboarding removes them"},
	{differ, "agents", "- /var/ossec/etc/client.keys", "the agent enrols again and writes the file"},
	{ship, "agents", "- /var/ossec/etc/client.keys", "the agent enrols again and writes the file"},
	{differ, "agents", "- /var/ossec/logs/ossec.log", "the agent creates its log"},
	{ship, "agents", "- /var/ossec/logs/ossec.log", "the agent creates its log"},
	{report, "agents", "enrolled-agents /**", "only the agent's own program can remove its ID"},
	{report, "agents", "host-names /opt/splunkforwarder/etc/system/local/*.conf", "only clone-prep-clear-config, or a person, can tell the name from a chosen one"},
	{report, "agents", "secrets-left /opt/sentinelone/configuration/basic.conf", "the token of a site, in a file that the rule enrolled-agents reports too"},
	{differ, "agents control-plane image-builder ubuntu-snap", "- /var/lib/apt/lists/partial", "apt creates the folder"},
	{ship, "agents control-plane image-builder ubuntu-snap", "- /var/lib/apt/lists/partial", "apt creates the folder"},
	{differ, "image-builder", "- /etc/hostname", "image-builder writes an empty name, and no file means the same"},
	{differ, "image-builder", "- /etc/systemd/system/multi-user.target.wants/kubelet.service", "image-builder enables the kubelet for kubeadm; an EKS bootstrap enables it itself"},
	{differ, "image-builder", "- /var/log/wtmp", "systemd-tmpfiles creates the file at boot"},
	{differ, "image-builder", "- /var/log/lastlog", "systemd-tmpfiles creates the file at boot"},
	{ship, "image-builder", "- /etc/hostname", "image-builder writes an empty name, and no file means the same"},
	{ship, "image-builder", "- /etc/systemd/system/multi-user.target.wants/kubelet.service", "image-builder enables the kubelet for kubeadm; an EKS bootstrap enables it itself"},
	{ship, "image-builder", "- /var/log/wtmp", "systemd-tmpfiles creates the file at boot"},
	{ship, "image-builder", "- /var/log/lastlog", "systemd-tmpfiles creates the file at boot"},
	{carry, "image-builder", "/etc/containerd/certs.d/registry.heron.corp", "the folder of hosts.toml, which the audit reports"},
	{report, "arch control-plane image-builder", "not-a-node machine", "made for kubeadm or by hand: a bootstrap of EKS is missing"},
	{report, "image-builder", "proxy-left /etc/apt/apt.conf.d/90proxy", "a base image may have its own proxy on purpose"},
	{report, "image-builder", "iscsi-initiator /etc/iscsi/initiatorname.iscsi", "without a unit that makes a name, iscsid needs the old one"},
	{report, "ubuntu-snap", "iscsi-initiator /etc/iscsi/initiatorname.iscsi", "without a unit that makes a name, iscsid needs the old one"},
	{report, "image-builder", "host-ids-left /etc/hosts", "a line that Cluster API's user data wrote"},
	{report, "image-builder", "kubeadm-unknown /etc/kubernetes/azure.json", "a cloud configuration of the old cluster"},
	{report, "image-builder", "kubelet-unknown /var/lib/kubelet/kubelet.conf.d", "drop-ins may be the image's own"},
	{report, "image-builder", "secrets-left /etc/apt/apt.conf.d/90proxy", "a password of a proxy"},
	{report, "image-builder", "secrets-left /etc/containerd/certs.d/registry.heron.corp/hosts.toml", "a password of a registry"},
	{report, "image-builder", "secrets-left /etc/kubernetes/azure.json", "a password of a cloud"},
	{report, "control-plane", "kubeadm-unknown /etc/kubernetes/*", "settings of a control plane: a person knows whether they are the image's"},
	{report, "control-plane", "secrets-left /etc/kubernetes/**", "keys of encryption at rest"},
	{report, "control-plane", "secrets-left /root/kubeadm-config.yaml", "a join token"},
	{report, "control-plane", "old-ids-left /root/kubeadm-config.yaml", "a person's file that names the old cluster"},
	{report, "control-plane", "old-ids-left /etc/hosts", "a person's line for the old cluster's API server"},
	{report, withCloudInit, "host-ids-left /var/lib/cloud/scripts/per-instance/20-join.sh", "a person's script that names the old cluster; scripts of the image have the same place"},
	{report, "rhel-cis", "host-ids-left /etc/*/**.keytab", "keys of services"},
	{report, "rhel-cis", "secrets-left /etc/pki/tls/private/*.key", "a private key whose owner must decide"},
	{report, "rhel-cis", "secrets-left /home/marjolein@heron.corp/.bash_history", "a file in the home that the rule homes-left reports"},
	{report, "rhel-cis", "homes-left /home/marjolein@heron.corp", "the home of a person of the domain"},
	{differ, "image-builder", "+ /var/snap/amazon-ssm-agent/current", "a link of snapd to the folder of a revision"},
	{report, "ubuntu-snap", "host-names /etc/landscape/client.conf", "computer_title, beside the settings of the image"},
	{report, "ubuntu-snap", "host-names /etc/mailname", "the name for mail, which Postfix needs"},
	{report, "ubuntu-snap", "secrets-left /etc/apt/auth.conf", "a password of a repository"},
	{report, "ubuntu-snap", "secrets-left /etc/postfix/sasl_passwd*", "a password for mail"},
	{report, "ubuntu-snap", "secrets-left /etc/ssl/private/ssl-cert-snakeoil.key", "a key that nothing makes again"},
	{differ, "ubuntu-snap", "+ /etc/ssl/certs/ssl-cert-snakeoil.pem", "a certificate beside a key that the audit reports"},
	{differ, "ubuntu-snap", "+ /etc/eks/containerd/containerd-config.toml", "an image with bootstrap.sh and without a template gets Amazon Linux 2's"},
	{ship, "ubuntu-snap", "+ /etc/eks/containerd/containerd-config.toml", "an image with bootstrap.sh and without a template gets Amazon Linux 2's"},
	{differ, "ubuntu-snap", "+ /var/cache/motd-news", "the news of the day, for every machine"},
	{differ, "ubuntu-snap", "+ /var/lib/command-not-found/commands.db", "an index of packages"},
	{differ, "ubuntu-snap", "+ /var/lib/ubuntu-release-upgrader/release-upgrade-available (empty)", "a notice that a timer writes again"},
	{differ, "ubuntu-snap", "+ /var/lib/unattended-upgrades/kept-back (empty)", "a list of packages that a timer writes again"},
	{differ, "ubuntu-snap", "+ /var/lib/update-notifier/updates-available", "a notice that a timer writes again"},
	{differ, "ubuntu-snap", "+ /var/spool/postfix/etc/resolv.conf", "Postfix copies the file from /etc at each start"},
	{carry, "ubuntu-snap", "/var/spool/postfix/etc/resolv.conf", "Postfix copies the file from /etc at each start"},
	{differ, "ubuntu-snap", "~ /var/cache/debconf/config.dat", "answers to packages' questions, next to those of the image"},
	{carry, "ubuntu-snap", "/var/cache/debconf/config.dat", "answers to packages' questions, next to those of the image"},
	{differ, "ubuntu-snap", "~ /var/lib/snapd/state.json", "brand and model of the device stay, which are those of every machine"},
	{report, "arch", "boot-entries /boot/4decadebadc0ffee0ddf00d5ca1ab1e5", "kernels in a folder with the machine ID: kernel-install must move them"},
	{report, "arch", "old-ids-left /**", "the boot loader's files of that folder"},
	{report, "arch", "engine-containers /var/lib/docker/containers/*", "only dockerd can remove a container"},
	{report, "arch", "secrets-left /**", "settings of a person: k3s, iwd, the boot loader's token"},
	{report, "arch", "host-ids-left /home/arch/eks/start.sh", "a person's script that names the old cluster"},
	{differ, "arch", "+ /boot/loader/loader.conf", "names the default entry"},
	{carry, "arch", "/boot/loader/loader.conf", "names the default entry"},
	{differ, "arch", "+ /etc/kernel/install.conf", "the layout of /boot"},
	{differ, "arch", "+ /etc/pacman.d/gnupg/*", "public keys of Arch and their signatures; the private key is gone, and pacman still verifies packages"},
	{carry, "arch", "/etc/pacman.d/gnupg/*", "public keys of Arch and their signatures; the private key is gone, and pacman still verifies packages"},
	{differ, "arch", "+ /etc/systemd/system/k3s.service", "the unit of a program that stays, beside k3s.service.env, which the audit reports"},
	{differ, "arch", "+ /etc/systemd/system/multi-user.target.wants/k3s.service", "the unit of a program that stays, beside k3s.service.env, which the audit reports"},
	{report, "flatcar", "engine-containers /var/lib/docker/**", "only dockerd can remove a container"},
	{differ, "flatcar", "+ /var/lib/docker/overlay2/**", "the file system of a container that the audit reports"},
	{carry, "flatcar", "/var/lib/docker/overlay2/**", "the file system of a container that the audit reports"},
	{differ, "flatcar", "+ /var/lib/update_engine/prefs/previous-version", "the version of Flatcar before the last update"},
	{differ, "flatcar", "- /boot/flatcar/first_boot", "with the file, Ignition would run at first boot and refuse user data of EKS"},
}

var update = flag.Bool("update", false, "update the golden plans of the scrub")

// machine is an image root that others made, and its twin that never joined.
type machine struct {
	twin []string // layers of the image as its makers ship it
	life []string // layers of what boots, clusters, people and agents add
}

// machines are the roots of testdata/roots. Each archive names its sources.
var machines = map[string]machine{
	"amazonlinux2":    {[]string{"linux", "rpm", "cloud-init", "amazonlinux2/twin"}, []string{"boots", "cloud-init-boots", "people", "joins", "amazonlinux2/life"}},
	"amazonlinux2023": {[]string{"linux", "rpm", "cloud-init", "amazonlinux2023/twin"}, []string{"boots", "cloud-init-boots", "people", "joins", "amazonlinux2023/life"}},
	"control-plane":   {[]string{"linux", "deb", "cloud-init", "control-plane/twin"}, []string{"boots", "cloud-init-boots", "people", "control-plane/life"}},
	"agents":          {[]string{"linux", "deb", "cloud-init", "agents/twin"}, []string{"boots", "cloud-init-boots", "agents/life"}},
	"image-builder":   {[]string{"linux", "deb", "cloud-init", "image-builder/twin"}, []string{"boots", "cloud-init-boots", "people", "image-builder/life"}},
	"rhel-cis":        {[]string{"linux", "rpm", "cloud-init", "rhel-cis/twin"}, []string{"boots", "cloud-init-boots", "people", "rhel-cis/life"}},
	"ubuntu-snap":     {[]string{"linux", "deb", "cloud-init", "ubuntu-snap/twin"}, []string{"boots", "cloud-init-boots", "people", "ubuntu-snap/life"}},
	"flatcar":         {[]string{"linux", "flatcar/twin"}, []string{"boots", "joins", "flatcar/life"}},
	"arch":            {[]string{"linux", "cloud-init", "arch/twin"}, []string{"boots", "cloud-init-boots", "people", "joins", "arch/life"}},
}

// TestAScrubbedMachineEqualsItsTwin scrubs a machine with a life behind it, and
// compares every file with the twin that never joined. Each difference, finding
// and mark needs an explanation, and each explanation must explain something.
func TestAScrubbedMachineEqualsItsTwin(t *testing.T) {
	for name, m := range machines {
		t.Run(name, func(t *testing.T) {
			twin := objects(t, assemble(t, m.twin...))
			require.Empty(t, marked(t, twin), "the twin has marks of a life")
			root := assemble(t, append(slices.Clone(m.twin), m.life...)...)
			h := hosttest.Mounted(t, root)
			ran, err := eksnode.Scrub(t.Context(), h, scrub.Spec{Audit: scrub.AuditWarns}, eksnode.Options{})
			require.NoError(t, err)
			require.NotEqual(t, plan.Failure, ran.Result, ran.Error)

			require.NotEqual(t, plan.Unknown, ran.Audit.Result, ran.Audit.Error)

			left := explained(t, name, reported(ran.Audit.Plan), report)
			assert.Empty(t, strings.Join(left, "\n"), "findings of the audit after the scrub")

			// What the audit reports is left, but not in silence.
			after := objects(t, root)
			left = explained(t, name, unreported(ran.Audit.Plan, differences(twin, after)), differ)
			assert.Empty(t, strings.Join(left, "\n"), "differences from the twin without an explanation")
			left = explained(t, name, unreported(ran.Audit.Plan, marked(t, after)), carry)
			assert.Empty(t, strings.Join(left, "\n"), "files with values of the machine, cluster or people")
		})
	}
}

// A scrub of the twin itself takes nothing that the image ships.
func TestAScrubTakesNothingFromTheTwin(t *testing.T) {
	for name, m := range machines {
		t.Run(name, func(t *testing.T) {
			root := assemble(t, m.twin...)
			before := objects(t, root)
			_, err := eksnode.Scrub(t.Context(), hosttest.Mounted(t, root), scrub.Spec{Audit: scrub.AuditOff}, eksnode.Options{})
			require.NoError(t, err)
			left := explained(t, name, differences(before, objects(t, root)), ship)
			assert.Empty(t, strings.Join(left, "\n"), "a scrub of an image that never joined changed files")
		})
	}
}

// TestGoldenScrubPlans compares the plan for each machine with testdata/NAME.golden.
// After an intended change, run go test ./scrub -run TestGoldenScrubPlans -update
// and read the difference.
func TestGoldenScrubPlans(t *testing.T) {
	for name, m := range machines {
		t.Run(name, func(t *testing.T) {
			root := assemble(t, append(slices.Clone(m.twin), m.life...)...)
			before := objects(t, root)
			dry, err := eksnode.Scrub(t.Context(), hosttest.Mounted(t, root), scrub.Spec{Audit: scrub.AuditWarns}, eksnode.Options{DryRun: true})
			require.NoError(t, err)
			assert.Equal(t, before, objects(t, root), "the plan changed files")
			file := filepath.Join("testdata/roots", name, "plan.golden")
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(planText(dry)), 0o644))
			}
			assert.Equal(t, testkit.Content(t, file), planText(dry))
		})
	}
}

// reported lists the findings of an audit as "rule target", sorted.
func reported(audit []plan.Planned) []string {
	var all []string
	for _, p := range audit {
		for _, a := range p.Actions {
			all = append(all, p.Item+" "+a.Target+": "+a.Reason)
		}
		for _, f := range p.Findings {
			all = append(all, p.Item+" "+f.Target+": "+f.Reason)
		}
		if p.Error != "" {
			all = append(all, p.Item+" error: "+p.Error)
		}
	}
	slices.Sort(all)
	return all
}

// unreported returns the lines about files that no finding of the audit names.
func unreported(audit []plan.Planned, lines []string) []string {
	return slices.DeleteFunc(lines, func(line string) bool {
		_, name, _ := strings.Cut(line, "/")
		name = "/" + name
		return slices.ContainsFunc(audit, func(p plan.Planned) bool {
			return slices.ContainsFunc(p.Findings, func(f plan.Finding) bool {
				rest, at := strings.CutPrefix(name, f.Target)
				return at && (rest == "" || strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, ": "))
			})
		})
	})
}

// planText is the plan of a dry run as a person reads it.
func planText(r plan.Report) string {
	var out strings.Builder
	list := r.Plan
	if r.Audit != nil {
		list = append(slices.Clone(list), r.Audit.Plan...)
	}
	for _, p := range list {
		if len(p.Actions)+len(p.Findings) == 0 && p.Error == "" {
			continue
		}
		fmt.Fprintf(&out, "%s\n", p.Item)
		for _, a := range p.Actions {
			fmt.Fprintf(&out, "  %s %s\n    %s\n", a.Verb, a.Target, a.Reason)
		}
		for _, f := range p.Findings {
			fmt.Fprintf(&out, "  finding %s\n    %s\n", f.Target, f.Reason)
		}
		if p.Error != "" {
			fmt.Fprintf(&out, "  error %s\n", p.Error)
		}
	}
	return out.String()
}

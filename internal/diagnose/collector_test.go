package diagnose

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// noSwap are lines of files that contain a cause's words but are no logs.
func noSwap() string { return "# " + lines["swap"][0] + "\n" + `args: ["MASTER_ENDPOINT"]` + "\n" }

// collectors are the files of archives that collect logs, and the log with the cause.
// The file names are those of the programs:
// https://github.com/awslabs/amazon-eks-ami/tree/main/log-collector-script
// https://github.com/bottlerocket-os/bottlerocket/tree/develop/sources/logdog
var collectors = map[string]struct {
	log   string
	files map[string]string
}{
	"eks_i-0123456789abcdef0_2026-11-20_2011-UTC_0.7.9.tar.gz": {"kubelet/kubelet.log", map[string]string{
		"kernel/dmesg.current":                            "[    0.000000] Linux version 6.1.0 (builder@host) (gcc 11) #1 SMP\n",
		"kernel/uname.txt":                                "Linux ip-10-0-1-2.ec2.internal 6.1.0 #1 SMP x86_64 GNU/Linux\n",
		"modinfo/ip_vs":                                   "nf_conntrack 1 0\n",
		"system/instance-id.txt":                          "i-0123456789abcdef0\n",
		"system/region.txt":                               "eu-west-1\n",
		"system/services.txt":                             "  kubelet.service loaded active running Kubernetes Kubelet\n",
		"system/ps.txt":                                   "root 1 /usr/bin/kubelet --config /etc/kubernetes/kubelet/config.json\n",
		"system/pkglist.txt":                              noSwap(),
		"system/systemd-analyze.svg":                      "<svg>" + noSwap() + "</svg>\n",
		"storage/mounts.txt":                              "tmpfs on /run type tmpfs\n",
		"storage/fstab.txt":                               "/dev/nvme0n1p1 / xfs defaults 0 0\n",
		"var_log/messages":                                "Nov 20 20:11:12 ip-10-0-1-2 systemd: Started kubelet\n",
		"var_log/cloud-init-output.log":                   "Cloud-init v. 22.2.2 running 'modules:final'\n",
		"var_log/aws-routed-eni/ipamd.log":                `{"level":"info","ts":"2026-11-20T20:11:12.000Z","caller":"ipamd/ipamd.go:1","msg":"Starting"}` + "\n",
		"var_log/kube-proxy-a/kube-proxy/0.log":           "2026-11-20T20:11:12.325154898Z stderr F I1120 20:11:12.325154 1 server.go:1] started\n",
		"networking/iptables.txt":                         "Chain INPUT (policy ACCEPT)\n",
		"networking/resolv.conf":                          "nameserver 10.0.0.2\n# " + lines["dns"][0] + "\n",
		"networking/curl_api_server.txt":                  "* Connected to ABC.gr7.eu-west-1.eks.amazonaws.com (10.0.3.17) port 443\n",
		"networking/systemd-network/10-eks.link":          noSwap(),
		"sandbox-image/sandbox-image-log.txt":             "-- No entries --\n",
		"ipamd/enis.json":                                 `{"0":` + quoted(noSwap()) + "}\n",
		"sysctls/sysctl_all.txt":                          "kernel.panic = 10\n",
		"kubelet/kubelet.log":                             "",
		"kubelet/kubelet_service.txt":                     noSwap(),
		"kubelet/kubeconfig.yaml":                         "server: https://ABC.gr7.eu-west-1.eks.amazonaws.com\n" + noSwap(),
		"kubelet/config.json":                             "{\n  \"a\": " + quoted(noSwap()) + "\n}\n",
		"kubelet/config.json.d/00-nodeadm.conf":           noSwap(),
		"nodeadm/nodeadm-config.log":                      "Nov 20 20:11:12 ip-10-0-1-2 nodeadm[1]: {\"level\":\"info\",\"msg\":\"done!\"}\n",
		"nodeadm/nodeadm-run.log":                         "-- No entries --\n",
		"containerd/containerd-config.txt":                noSwap(),
		"containerd/containerd-log.txt":                   "Nov 20 20:11:12 ip-10-0-1-2 containerd[1]: time=\"2026-11-20T20:11:12Z\" level=info msg=\"starting containerd\"\n",
		"containerd/soci-snapshotter/config.toml":         noSwap(),
		"cni/10-aws.conflist":                             "{\"name\": \"aws-cni\"}\n",
		"cni/cni-configuration-variables-containerd.json": `{"Labels":{}}` + "\n",
		"gpu/nvidia-bug-report.log.gz":                    "",
	}},
	"bottlerocket-logs.tar.gz": {"bottlerocket-logs/journalctl.log", map[string]string{
		"bottlerocket-logs/os-release":             "NAME=Bottlerocket\n",
		"bottlerocket-logs/journalctl-list-boots":  "0 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa Fri 2026-11-20 20:11:12 UTC\n",
		"bottlerocket-logs/journalctl.log":         "",
		"bottlerocket-logs/settings.json":          "{\n  \"settings\": {\"motd\": " + quoted(noSwap()) + "}\n}\n",
		"bottlerocket-logs/containerd-config.toml": noSwap(),
		"bottlerocket-logs/df":                     "Filesystem 1K-blocks Used\n",
	}},
	"sosreport-ip-10-0-1-2-2026-11-20-abcdefg.tar.xz": {"sosreport-ip-10-0-1-2/var/log/messages", map[string]string{
		"sosreport-ip-10-0-1-2/etc/kubernetes/notes":                 noSwap(),
		"sosreport-ip-10-0-1-2/usr/share/doc/kubelet/README":         noSwap(),
		"sosreport-ip-10-0-1-2/proc/cmdline":                         "BOOT_IMAGE=/vmlinuz\n",
		"sosreport-ip-10-0-1-2/var/lib/cloud/instance/user-data.txt": noSwap(),
		"sosreport-ip-10-0-1-2/var/log/messages":                     "",
		"sosreport-ip-10-0-1-2/sos_commands/kernel/uname_-a":         "Linux\n",
	}},
	"eks_i-0123456789abcdef0_20261120.zip": {`kubelet\kubelet-service.csv`, map[string]string{
		`kubelet\kubelet-service.csv`: "",
		`events\EKS.evtx`:             noise(),
		`cni\config.conf`:             noSwap(),
	}},
}

func TestArchivesOfLogCollectorsAreRead(t *testing.T) {
	for name, c := range collectors {
		t.Run(name, func(t *testing.T) {
			var pairs []string
			for _, file := range slices.Sorted(maps.Keys(c.files)) {
				text := c.files[file]
				if file == c.log {
					text += ill()
				}
				prefix := "./"
				if strings.HasSuffix(name, ".zip") {
					prefix = ""
				}
				pairs = append(pairs, prefix+file, text)
			}
			archive := ""
			switch {
			case strings.HasSuffix(name, ".zip"):
				archive = zipped(t, pairs...)
			case strings.HasSuffix(name, ".xz"):
				archive = xzipped(t, tarred(t, pairs...))
			default:
				archive = gzipped(t, tarred(t, pairs...))
			}
			path := file(t, name, archive)
			r, wrong := looked(t, path)
			assert.Empty(t, wrong)
			require.Len(t, r.Findings, 1)
			assert.Equal(t, "swap", r.Findings[0].Rule.ID)
			assert.Equal(t, 1, r.Findings[0].Count, r.Findings[0].Evidence)
			assert.Contains(t, r.Findings[0].Evidence[0], path+":"+c.log+":2: ")
		})
	}
}

// A file that a person names is searched, also if it looks like configuration.
func TestNamedFilesAreAlwaysSearched(t *testing.T) {
	r, wrong := looked(t, file(t, "kubelet.conf", ill()))
	assert.Empty(t, wrong)
	require.Len(t, r.Findings, 1)
}

// JSON with log lines is read in folders and archives; other JSON is not.
func TestJSONInArchives(t *testing.T) {
	r, wrong := looked(t, file(t, "a.tar", tarred(t,
		"events.json", `{"events":[{"message":`+quoted(lines["swap"][0])+`}]}`, "config.json", `{"a":`+quoted(lines["swap"][0])+`}`)))
	assert.Empty(t, wrong)
	require.Len(t, r.Findings, 1)
	assert.Equal(t, 1, r.Findings[0].Count)
	require.Len(t, r.PassedOver, 1)
	assert.Contains(t, r.PassedOver[0], ":config.json")
}

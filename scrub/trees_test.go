//go:build linux

package scrub

import (
	"path"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
)

// findCase is a tree for a rule with a function, and its changes.
type findCase = struct {
	name  string
	files map[string]string
	want  []string
}

const sandbox = "/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/0123"

// found has trees for rules with a function, and the changes of each.
var found = map[string][]findCase{
	"kubelet-unknown": {
		{"present", map[string]string{"var/lib/kubelet/new_state": "x", "var/lib/kubelet/pods/": ""}, nil},
		{"left by a killed run", map[string]string{"var/lib/kubelet/.kubeconfig.eksnode-0123456789abcdef": "half"}, []string{"- /var/lib/kubelet/.kubeconfig.eksnode-0123456789abcdef"}},
	},
	"kubelet-mounts":         {{"nothing mounted", map[string]string{"var/lib/kubelet/pods/x": "x"}, nil}}, // see its own tests
	"instance-store-mounted": {{"an image root", map[string]string{"etc/systemd/system/local-0.mount": templates.InitMark + "\n[Mount]\nWhere=/local/0\n"}, nil}},
	"pod-volumes":            {{"a replica", map[string]string{"var/lib/longhorn/replicas/pvc-1/volume-head-000.img": "data", "var/openebs/local/": "", "var/lib/rook/": ""}, nil}},
	"containers-metadata":    {{"another file", map[string]string{"var/lib/containerd/x": containerMark}, nil}}, // see its own test
	"engine-containers":      {{"containers of every engine", map[string]string{"var/lib/docker/containers/0123/config.v2.json": "{}", "var/lib/containers/storage/overlay-containers/containers.json": "[]"}, nil}},
	"enrolled-agents":        {{"CrowdStrike Falcon", map[string]string{"opt/CrowdStrike/falconstore": "x"}, nil}},
	"snapd-state": {
		{"registered", map[string]string{snapdState[1:]: registeredSnapd}, []string{"~ " + snapdState}},
		{"not registered", map[string]string{snapdState[1:]: `{"data":{"auth":{"last-id":0,"device":{"brand":"generic","model":"generic-classic"}}}}`}, nil},
		{"without logins", map[string]string{snapdState[1:]: `{"data":{"auth":null}}`}, nil},
		{"damaged", map[string]string{snapdState[1:]: `{"data":`}, nil},
		{"a link to nothing", map[string]string{snapdState[1:]: "-> /missing"}, nil},
	},
	"network-addresses": profileTrees,
	"iptables-rules": {
		{"written by a cluster", map[string]string{"etc/iptables/rules.v4": "*nat\n:KUBE-SERVICES - [0:0]\n", "etc/sysconfig/iptables": ":AWS-SNAT-CHAIN-0 - [0:0]\n"}, []string{"- /etc/iptables/rules.v4", "- /etc/sysconfig/iptables"}},
		{"written by an administrator", map[string]string{"etc/iptables/rules.v4": "*filter\n-A INPUT -j ACCEPT\n"}, nil},
		{"a link", map[string]string{"etc/iptables/rules.v4": "-> /kept/rules", "kept/rules": ":KUBE-X"}, []string{"- /etc/iptables/rules.v4"}},
	},
	"kubeadm-unknown": {
		{"with kubeadm", map[string]string{"usr/bin/kubeadm": "", "etc/kubernetes/audit.yaml": "x", "etc/kubernetes/manifests/": ""}, nil},
		{"without", map[string]string{"etc/kubernetes/audit.yaml": "x"}, nil},
	},
	"agent-folders": {
		{"of a cut session", map[string]string{"opt/eksnode-0123456789abcdef/eksnode": "x"}, []string{"- /opt/eksnode-0123456789abcdef", "- /opt/eksnode-0123456789abcdef/eksnode"}},
		{"with other files", map[string]string{"opt/eksnode-0123456789abcdef/mine": "x"}, nil},
	},
	"lingering":        {{"a stranger", map[string]string{"var/lib/systemd/linger/ada": ""}, []string{"- /var/lib/systemd/linger/ada"}}},
	"cluster-settings": {{"a CA", map[string]string{"usr/local/share/ca-certificates/kube-ca.crt": "x"}, nil}},
	"containers": {
		{"without metadata", map[string]string{sandbox[1:] + "/hostname": "old"}, []string{"- " + path.Dir(sandbox), "- " + sandbox, "- " + sandbox + "/hostname"}},
		{"with images of the manifest", map[string]string{sandbox[1:] + "/hostname": "old", manifest.Path[1:]: `{"schema":"` + manifest.Schema + `","images":[{"name":"pause"}]}`}, nil},
	},
	"host-names": {{"a name", map[string]string{"etc/mailname": "old.corp\n"}, nil}},
	"homes-left": {{"of a domain", map[string]string{"home/ada@corp/": ""}, nil}},
	"names-in-configs": {
		{"a name", map[string]string{"root/.gitconfig": "[user]\n\tname = Ada\n"}, []string{"- /root/.gitconfig"}},
		{"no name", map[string]string{"root/.gitconfig": "[safe]\n\tdirectory = *\n"}, nil},
		{"a link", map[string]string{"root/.gitconfig": "-> /kept/file", "kept/file": "email = ada@corp\n"}, []string{"- /root/.gitconfig"}},
		{"of other programs", map[string]string{
			"home/admin/.config/git/config": "[user]\n\temail=ada@corp\n", "home/admin/.config/git/attributes": "*.x diff\n",
			"opt/svc home/.makepkg.conf": "PACKAGER=\"Ada <ada@corp>\"\n", "opt/svc home/.hgrc": "[ui]\nusername = Ada\n",
		}, []string{"- /home/admin/.config/git/config", "- /opt/svc home/.hgrc", "- /opt/svc home/.makepkg.conf"}},
	},
	"kubelet-kubeconfig": {
		{"filled in", map[string]string{"etc/eks/bootstrap.sh": "", templates.Kubeconfig[1:]: joinedKubeconfig}, []string{"~ " + templates.Kubeconfig}},
		{"moved away", map[string]string{"etc/eks/bootstrap.sh": "", "var/lib/kubelet/": ""}, []string{"+ " + templates.Kubeconfig}},
		{"behind a link", map[string]string{"etc/eks/bootstrap.sh": "", "var/lib/kubelet": "-> /data", "data/kubeconfig": joinedKubeconfig}, []string{"~ /data/kubeconfig"}},
		{"itself a link", map[string]string{"etc/eks/bootstrap.sh": "", templates.Kubeconfig[1:]: "-> /data/kubeconfig", "data/kubeconfig": joinedKubeconfig}, []string{"~ /data/kubeconfig"}},
		{"the kubelet's own, on an Outpost", map[string]string{amazonScript[1:]: "#!/bin/bash\n",
			templates.Kubeconfig[1:]: "users:\n- user:\n" +
				"    client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem\n"}, []string{"~ " + templates.Kubeconfig}},
		{"without a template", map[string]string{templates.Kubeconfig[1:]: nodeadmKubeconfig}, []string{"- " + templates.Kubeconfig}},
		{"of Amazon Linux 2, without a script", map[string]string{templates.Kubeconfig[1:]: joinedKubeconfig}, []string{"~ " + templates.Kubeconfig}},
		{"untouched", map[string]string{"etc/eks/bootstrap.sh": "", templates.Kubeconfig[1:]: templateText(templates.Kubeconfig)}, nil},
		{"written by first boot", map[string]string{"etc/eks/bootstrap.sh": "", templates.Kubeconfig[1:]: templates.InitMark + "\n" + joinedKubeconfig}, []string{"~ " + templates.Kubeconfig}},
	},
	"kubelet-config": {
		{"filled in", map[string]string{"etc/eks/bootstrap.sh": "", templates.KubeletConfig[1:]: `{"kind":"KubeletConfiguration","maxPods":17}`}, []string{"~ " + templates.KubeletConfig}},
		{"untouched", map[string]string{"etc/eks/bootstrap.sh": "", templates.KubeletConfig[1:]: templateText(templates.KubeletConfig)}, nil},
	},
	"containerd-template": {
		{"filled in", map[string]string{"etc/eks/bootstrap.sh": "", templates.ContainerdConfig[1:]: joinedContainerd}, []string{"~ " + templates.ContainerdConfig}},
		{"untouched", map[string]string{"etc/eks/bootstrap.sh": "", templates.ContainerdConfig[1:]: templateText(templates.ContainerdConfig)}, nil},
	},
	"nodeconfig-sources": {
		{"with a cluster", map[string]string{
			"etc/eks/nodeadm.d/10.yaml": "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {kubelet: {config: {maxPods: 9}}}\n---\nkind: NodeConfig\nspec: {cluster: {name: old}}\n",
			"etc/eks/nodeadm.d/20.json": `{"kind": "NodeConfig", "spec": {"cluster": {"apiServerEndpoint": "https://old"}}}`,
		}, []string{"- /etc/eks/nodeadm.d/10.yaml", "- /etc/eks/nodeadm.d/20.json"}},
		{"without a cluster", map[string]string{
			"etc/eks/nodeadm.d/runsc.yaml": "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  containerd:\n    config: |\n      [plugins]\n",
			"etc/eks/nodeadm.d/empty.yaml": "", "etc/eks/nodeadm.d/README": "A NodeConfig: see the {manual", "etc/eks/nodeadm.d/folder.yaml/": "",
		}, nil},
		{"a link", map[string]string{"etc/eks/nodeadm.d/10.yaml": "-> /kept/config", "kept/config": "kind: NodeConfig\nspec: {cluster: {name: old}}\n"}, []string{"- /etc/eks/nodeadm.d/10.yaml"}},
		{"a link to nothing", map[string]string{"etc/eks/nodeadm.d/10.yaml": "-> /missing"}, nil},
		{"damaged", map[string]string{"etc/eks/nodeadm.d/10.yaml": "kind: NodeConfig\nspec: {cluster: {name: old\n"}, nil},
	},
	"ssh-passwords": {
		{"allowed", map[string]string{sshdCloudInit[1:]: "PasswordAuthentication yes\n"}, []string{"- " + sshdCloudInit}},
		{"forbidden", map[string]string{sshdCloudInit[1:]: "# PasswordAuthentication yes\nPasswordAuthentication no\n"}, nil},
	},
	"generated-environments": {
		{"written by first boot", map[string]string{"etc/systemd/system/x.service.d/environment.conf": templates.InitMark + "\n[Service]\nEnvironment=\"A=b\"\n", "etc/systemd/system.conf.d/environment.conf": templates.InitMark + "\n"},
			[]string{"- /etc/systemd/system.conf.d/environment.conf", "- /etc/systemd/system/x.service.d/environment.conf"}},
		{"written by nodeadm", map[string]string{"etc/systemd/system/x.service.d/environment.conf": "[Service]\nEnvironment=\"A=b\"\nEnvironment=\"B=\\\"x\\\" %%\"\n", "etc/eks/kubelet/environment": "x",
			"etc/systemd/system.conf.d/environment.conf": "[Manager]\nDefaultEnvironment=\"HTTPS_PROXY=http://p:3128\"\n"},
			[]string{"- /etc/systemd/system.conf.d/environment.conf", "- /etc/systemd/system/x.service.d/environment.conf"}},
		{"written by an operator", map[string]string{
			"etc/eks/kubelet/environment": "x", "etc/systemd/system/a.service.d/environment.conf": "[Service]\nEnvironment=HTTPS_PROXY=http://p:3128\n",
			"etc/systemd/system/b.service.d/environment.conf": "# ours\n[Service]\nEnvironment=\"A=b\"\n", "etc/systemd/system/c.service.d/environment.conf": "[Service]\nEnvironment=\"B=b\"\nEnvironment=\"A=b\"\n",
			"etc/systemd/system/d.service.d/environment.conf": "[Service]\nEnvironment=\"A=b\"\nLimitNOFILE=1\n",
		}, nil},
		{"without nodeadm", map[string]string{"etc/systemd/system/x.service.d/environment.conf": "[Service]\nEnvironment=\"A=b\"\n", "usr/bin/nodeadm": "x"}, nil},
		{"SOCI's order", map[string]string{sociDropIn[1:]: "[Unit]\nRequires=soci-snapshotter.service\nAfter=soci-snapshotter.service\n"}, []string{"- " + sociDropIn}},
		{"SOCI's order, edited", map[string]string{sociDropIn[1:]: "[Unit]\nRequires=soci-snapshotter.service\nAfter=soci-snapshotter.service\nBefore=x\n"}, nil},
	},
	"soci-config": {
		{"written by first boot", map[string]string{sociConfig[1:]: templates.InitMark + "\n[x]\n"}, []string{"- " + sociConfig}},
		{"written by a person", map[string]string{sociConfig[1:]: "[x]\n"}, nil},
	},
	"local-disks": {
		{"written by first boot", map[string]string{
			`etc/systemd/system/data-k8s\x2ddisks-0.mount`:                         templates.InitMark + "\n[Mount]\nWhat=/dev/disk/by-uuid/1\nWhere=/data/k8s-disks/0\nType=xfs\n",
			"etc/systemd/system/var-lib-kubelet.mount":                             templates.InitMark + "\n[Mount]\nWhat=/data/k8s-disks/0/kubelet\nWhere=/var/lib/kubelet\nOptions=bind\n",
			`etc/systemd/system/multi-user.target.wants/data-k8s\x2ddisks-0.mount`: `-> /etc/systemd/system/data-k8s\x2ddisks-0.mount`,
			"etc/systemd/system/multi-user.target.wants/var-lib-kubelet.mount":     "-> /etc/systemd/system/var-lib-kubelet.mount",
			"var/lib/kubelet/seccomp/profile.json":                                 "kept",
		}, []string{
			`- /etc/systemd/system/data-k8s\x2ddisks-0.mount`, `- /etc/systemd/system/multi-user.target.wants/data-k8s\x2ddisks-0.mount`,
			"- /etc/systemd/system/multi-user.target.wants/var-lib-kubelet.mount", "- /etc/systemd/system/var-lib-kubelet.mount",
		}},
		{"of Amazon's AMIs", map[string]string{
			"etc/systemd/system/local-0.mount":                    "[Unit]\nDescription=Mount EC2 Instance Store NVMe disk RAID0\n[Mount]\nWhat=UUID=1\nWhere=/local/0\nType=xfs\nOptions=defaults,noatime\n",
			"etc/systemd/system/var-log-pods.mount":               "[Unit]\nDescription=x\n[Mount]\nWhat=/local/0/pods\nWhere=/var/log/pods\nType=none\nOptions=bind\n",
			".aws/mdadm.conf":                                     "ARRAY",
			`etc/systemd/system/x.wants/mnt-k8s\x2ddisks-1.mount`: "-> /missing",
		}, []string{
			"- /.aws/mdadm.conf", "- /etc/systemd/system/local-0.mount", "- /etc/systemd/system/var-log-pods.mount", `- /etc/systemd/system/x.wants/mnt-k8s\x2ddisks-1.mount`,
		}},
		{"written by an operator", map[string]string{
			"etc/systemd/system/var-lib-kubelet.mount":                         "[Mount]\nWhat=/dev/disk/by-label/kubelet\nWhere=/var/lib/kubelet\nType=ext4\n",
			"etc/systemd/system/srv.mount":                                     "[Mount]\nWhat=/data/srv\nWhere=/srv\nOptions=bind\n",
			"etc/systemd/system/multi-user.target.wants/var-lib-kubelet.mount": "-> /etc/systemd/system/var-lib-kubelet.mount",
			"etc/systemd/system/masked.mount":                                  "-> /dev/null",
		}, nil},
	},
	"credential-provider-config": {
		{"written by first boot", map[string]string{credentialProviderConfig[1:]: ecrOnly}, []string{"- " + credentialProviderConfig}},
		{"on Amazon Linux 2", map[string]string{credentialProviderConfig[1:]: ecrOnly, "etc/eks/bootstrap.sh": ""}, nil},
		{"written by a person", map[string]string{credentialProviderConfig[1:]: strings.Replace(ecrOnly, "public.ecr.aws", "registry.example", 1)}, nil},
		{"recorded and overwritten", map[string]string{credentialProviderConfig[1:]: ecrOnly, manifest.Path[1:]: recorded(credentialProviderConfig, "{}")}, []string{"~ " + credentialProviderConfig}},
		{"recorded and lost", map[string]string{"etc/eks/image-credential-provider/": "", manifest.Path[1:]: recorded(credentialProviderConfig, "{}")}, []string{"+ " + credentialProviderConfig}},
		{"recorded and edited", map[string]string{credentialProviderConfig[1:]: `{"providers":[]}`, manifest.Path[1:]: recorded(credentialProviderConfig, "{}")}, nil},
		{"recorded and right", map[string]string{credentialProviderConfig[1:]: ecrOnly, manifest.Path[1:]: recorded(credentialProviderConfig, ecrOnly)}, nil},
	},
	"containerd-config": {
		{"written by first boot", map[string]string{"etc/containerd/config.toml": templates.InitMark + "\nversion = 3\n"}, []string{"- /etc/containerd/config.toml"}},
		{"generated, with the image's pause image", map[string]string{"etc/eks/bootstrap.sh": "", "etc/containerd/config.toml": localContainerd}, []string{"- /etc/containerd/config.toml"}},
		{"generated from an edited template", map[string]string{
			"etc/eks/bootstrap.sh": "", "etc/containerd/config.toml": localContainerd + "[debug]\n", templates.ContainerdConfig[1:]: templateText(templates.ContainerdConfig) + "[debug]\n",
		}, []string{"- /etc/containerd/config.toml"}},
		{"written by a person, with the image's pause image", map[string]string{"etc/eks/bootstrap.sh": "", "etc/containerd/config.toml": localContainerd + "[debug]\n"}, nil},
		{"generated", map[string]string{"etc/eks/bootstrap.sh": "", "etc/containerd/config.toml": joinedContainerd}, []string{"- /etc/containerd/config.toml"}},
		{"of a package", map[string]string{"etc/eks/bootstrap.sh": "", "etc/containerd/config.toml": "version = 2\n"}, nil},
	},
	"bootstrap-units": {
		{"copied", map[string]string{"etc/eks/containerd/kubelet-containerd.service": "[Unit]", "etc/systemd/system/kubelet.service": "[Unit]"}, []string{"- /etc/systemd/system/kubelet.service"}},
		{"of the image", map[string]string{"etc/systemd/system/kubelet.service": "[Unit]"}, nil},
		{"recorded and overwritten", map[string]string{
			"etc/eks/containerd/kubelet-containerd.service": "[Unit]", "etc/systemd/system/kubelet.service": "[Unit]", manifest.Path[1:]: recorded("/etc/systemd/system/kubelet.service", "[Unit] # ours"),
		}, []string{"~ /etc/systemd/system/kubelet.service"}},
		{"recorded and lost", map[string]string{
			"etc/eks/containerd/kubelet-containerd.service": "[Unit]", "etc/systemd/system/": "", manifest.Path[1:]: recorded("/etc/systemd/system/kubelet.service", "[Unit] # ours"),
		}, []string{"+ /etc/systemd/system/kubelet.service"}},
		{"recorded and right", map[string]string{
			"etc/eks/containerd/kubelet-containerd.service": "[Unit]", "etc/systemd/system/kubelet.service": "[Unit] # ours", manifest.Path[1:]: recorded("/etc/systemd/system/kubelet.service", "[Unit] # ours"),
		}, nil},
		{"recorded and edited", map[string]string{
			"etc/eks/containerd/kubelet-containerd.service": "[Unit]", "etc/systemd/system/kubelet.service": "[Unit] # edited", manifest.Path[1:]: recorded("/etc/systemd/system/kubelet.service", "[Unit] # ours"),
		}, nil},
	},
	"iptables-restore": {
		{"without rules", map[string]string{"etc/systemd/system/x.wants/iptables-restore.service": "-> /x", iptablesRestore[1:]: "ExecStart=iptables-restore < /etc/sysconfig/iptables\n"},
			[]string{"- " + iptablesRestore, "- /etc/systemd/system/x.wants/iptables-restore.service"}},
		{"with rules", map[string]string{"etc/systemd/system/x.wants/iptables-restore.service": "-> /x", "etc/sysconfig/iptables": "*filter\n"}, nil},
		{"another unit", map[string]string{iptablesRestore[1:]: "ExecStart=iptables-restore /etc/own\n"}, nil},
	},
	"kubelet-enabled": {
		{"enabled", map[string]string{"etc/systemd/system/multi-user.target.wants/kubelet.service": "-> /x", "etc/systemd/system/multi-user.target.wants/sshd.service": "-> /x"}, []string{"- /etc/systemd/system/multi-user.target.wants/kubelet.service"}},
	},
	"resolv-conf": {
		{"a file", map[string]string{"etc/resolv.conf": "nameserver 10.0.0.2"}, []string{"- /etc/resolv.conf"}},
		{"a link", map[string]string{"etc/resolv.conf": "-> ../run/resolv.conf", "run/resolv.conf": "nameserver 10.0.0.2"}, nil},
	},
	"boot-entries": {
		{"a token", map[string]string{"etc/kernel/entry-token": oldID + "\n"}, []string{"- /etc/kernel/entry-token"}},
		{"the token of a distribution", map[string]string{"etc/kernel/entry-token": "fedora\n"}, nil},
		{"kernels in a folder", map[string]string{
			"efi/" + oldID + "/6.1/linux": "kernel", "etc/kernel/entry-token": oldID + "\n", "efi/loader/loader.conf": "default " + oldID + "-*\n",
			"efi/loader/entries/" + oldID + "-6.1.conf": "title x\nmachine-id " + oldID + "\nlinux /" + oldID + "/6.1/linux\n",
		}, nil},
		{"a link", map[string]string{"boot/loader/entries": "-> /data", "data/" + oldID + "-1.conf": "title x\n"}, []string{"+ /data/" + neutralID + "-1.conf", "- /data/" + oldID + "-1.conf"}},
	},
	"machine-id": {
		{"filled in", map[string]string{"etc/machine-id": "0123456789abcdef0123456789abcdef\n"}, []string{"~ /etc/machine-id"}},
		{"empty", map[string]string{"etc/machine-id": ""}, nil},
		{"missing", map[string]string{"etc/systemd/": ""}, []string{"+ /etc/machine-id"}},
		{"a link", map[string]string{"etc/systemd/": "", "run/": "", "etc/machine-id": "-> /run/machine-id"}, []string{"+ /run/machine-id"}},
		{"a link to the boot's own", map[string]string{"etc/machine-id": "-> /run/machine-id", "run/machine-id": "0123456789abcdef0123456789abcdef\n"}, nil},
		{"a folder", map[string]string{"etc/machine-id/x": "x"}, nil},
		{"a link to a folder", map[string]string{"etc/machine-id": "-> /var/lib/ids", "var/lib/ids/": ""}, nil},
		{"a link elsewhere", map[string]string{"etc/machine-id": "-> ../data/machine-id", "data/machine-id": "0123456789abcdef0123456789abcdef\n"}, []string{"~ /data/machine-id"}},
	},
	"dbus-machine-id": {
		{"a file", map[string]string{"var/lib/dbus/machine-id": "0123456789abcdef0123456789abcdef\n"}, []string{"- /var/lib/dbus/machine-id"}},
		{"a link", map[string]string{"var/lib/dbus/machine-id": "-> /etc/machine-id"}, nil},
		{"an empty folder", map[string]string{"var/lib/dbus/machine-id/": ""}, []string{"- /var/lib/dbus/machine-id"}},
		{"a folder", map[string]string{"var/lib/dbus/machine-id/x": "x"}, nil},
	},
	"hosts": {
		{"with a name", map[string]string{"etc/hosts": "127.0.0.1 localhost\n127.0.1.1 old\n"}, []string{"~ /etc/hosts"}},
		{"with an Outpost", map[string]string{"etc/hosts": "127.0.0.1 localhost\n10.0.0.9\tx.example " + templates.HostsMark + "\n"}, []string{"~ /etc/hosts"}},
		{"without", map[string]string{"etc/hosts": "127.0.0.1 localhost\n10.0.0.9 x.example\n"}, nil},
	},
	"iscsi-initiator": {
		{"created at boot", map[string]string{"etc/iscsi/initiatorname.iscsi": "InitiatorName=iqn.x:1\n", "usr/lib/systemd/system/iscsi-init.service": "[Unit]"}, []string{"- /etc/iscsi/initiatorname.iscsi"}},
		{"requested", map[string]string{"etc/iscsi/initiatorname.iscsi": "GenerateName=yes\n"}, nil},
		{"not created at boot", map[string]string{"etc/iscsi/initiatorname.iscsi": "InitiatorName=iqn.x:1\n"}, nil},
		{"a link", map[string]string{"etc/iscsi/initiatorname.iscsi": "-> /kept/file", "usr/lib/systemd/system/iscsi-init.service": "[Unit]"}, nil},
	},
	"swap": {
		{"a file and its line", map[string]string{"swapfile": "x", "etc/fstab": "/swapfile none swap sw 0 0\n/dev/sda1 / ext4 defaults 0 1\n"}, []string{"- /swapfile", "~ /etc/fstab"}},
		{"a link", map[string]string{"swapfile": "-> /kept/file"}, nil},
	},
	"login-databases": {
		{"files", map[string]string{"var/lib/wtmpdb/wtmp.db": "x", "var/lib/wtmpdb/wtmp.db-wal": "x", "var/lib/lastlog/lastlog2.db": "x"}, []string{
			"- /var/lib/lastlog/lastlog2.db", "- /var/lib/wtmpdb/wtmp.db", "- /var/lib/wtmpdb/wtmp.db-wal",
		}},
		{"Debian's link", map[string]string{"var/lib/wtmpdb/wtmp.db": "-> ../../log/wtmp.db", "var/log/wtmp.db": "x"}, []string{"- /var/log/wtmp.db"}},
	},
	"login-records": {
		{"created at boot", map[string]string{"var/log/wtmp": "x", "var/log/btmp": "x", "usr/lib/tmpfiles.d/var.conf": "f /var/log/wtmp 0664 root utmp -\n"}, []string{"- /var/log/wtmp", "~ /var/log/btmp"}},
		{"not created at boot", map[string]string{"var/log/wtmp": "x"}, []string{"~ /var/log/wtmp"}},
		{"empty", map[string]string{"var/log/wtmp": ""}, nil},
		{"a link", map[string]string{"var/log/wtmp": "-> /kept/file"}, nil},
	},
	"log-files": {
		{"all kinds", map[string]string{
			"var/log/messages": "x", "var/log/messages-20240101": "x", "var/log/a/b.1": "x", "var/log/a/new\nline": "x", "var/log/empty": "",
			"var/log/link": "-> /kept/file", "var/log/folder": "-> /kept/folder", "var/log/journal/id/x": "x", "var/log/pods/p": "x", "var/log/wtmp": "x", "var/log/wtmp.db": "x",
		}, []string{"- /var/log/a/b.1", "- /var/log/messages-20240101", "~ /var/log/a/new\nline", "~ /var/log/messages"}},
		{"a link", map[string]string{"var/log": "-> /data/log", "data/log/a/messages": "x", "data/log/messages.1": "x", "data/other": "x"}, []string{"- /data/log/messages.1", "~ /data/log/a/messages"}},
		{"a link to nothing", map[string]string{"var/log": "-> /missing"}, nil},
	},
}

// told are the findings of cases in found, by rule and case.
var told = map[string][]string{
	"kubelet-unknown/present": {"/var/lib/kubelet/new_state: no rule covers this file: remove it by hand if it is state of the old cluster"},
	"pod-volumes/a replica": {
		"/var/lib/longhorn: volumes of pods are in this folder: move the data that you need, remove the rest",
		"/var/openebs: volumes of pods are in this folder: move the data that you need, remove the rest",
	},
	"boot-entries/kernels in a folder": {"/efi/" + oldID + ": the machine boots from a folder with the builder machine's ID as its name: " +
		"write another name, such as the distribution's ID, into /etc/kernel/entry-token, run kernel-install add-all, and remove the folder"},
	"machine-id/a folder":           {"/etc/machine-id: the file is not a regular file, and systemd needs an empty regular file: remove /etc/machine-id"},
	"machine-id/a link to a folder": {"/etc/machine-id: the file is not a regular file, and systemd needs an empty regular file: remove /etc/machine-id"},
	"dbus-machine-id/a folder":      {"/var/lib/dbus/machine-id: a folder with files stands in place of the file: remove /var/lib/dbus/machine-id"},
	"iscsi-initiator/requested":     {},
	"iscsi-initiator/not created at boot": {"/etc/iscsi/initiatorname.iscsi: no unit on this machine creates a new name at boot, and iscsid needs one: " +
		"on Debian, write GenerateName=yes into the file; otherwise remove the package of iscsid"},
}

var joinedContainerd = strings.Replace(templateText(templates.ContainerdConfig), "SANDBOX_IMAGE", "918309763551.dkr.ecr.cn-north-1.amazonaws.com.cn/eks/pause:3.5", 1)

// localContainerd is the template filled in with a pause image that the image
// contains.
var localContainerd = strings.Replace(templateText(templates.ContainerdConfig), "SANDBOX_IMAGE", "localhost/kubernetes/pause:latest", 1)

const ecrOnly = `{"kind":"CredentialProviderConfig","providers":[{"name":"ecr-credential-provider","matchImages":["*.dkr.ecr.*.amazonaws.com","public.ecr.aws"]}]}`

func recorded(path, content string) string {
	m := manifest.Manifest{Templates: []manifest.Template{{Path: path, Mode: 0o644, Content: content, SHA256: manifest.Sum([]byte(content))}}}
	text, err := m.Encode()
	if err != nil {
		panic(err) // a manifest of one text
	}
	return string(text)
}

# A world for one case, in new namespaces of mounts, network and processes.
set -u
programs=$1 setting=$2 command=$3
with= containerd_with= no_containerd= api= config= pod=

# remount gives the folder an option, as its own file system has it by fstab.
remount() { mount --bind "$1" "$1" && mount -o "remount,bind,$2" "$1"; }

# settle gives this world's kubelet the kernel settings that it wants.
settle() {
	while read -r name value; do
		echo "$value" > "/run/$name"
		mount --bind "/run/$name" "/proc/sys/$(echo "$name" | tr . /)"
	done <<-END
		vm.overcommit_memory 1
		vm.panic_on_oom 0
		kernel.panic 10
		kernel.panic_on_oops 1
		kernel.keys.root_maxkeys 1000000
		kernel.keys.root_maxbytes 25000000
	END
}

start_containerd() {
	[ -z "$no_containerd" ] || return 0
	$containerd_with /usr/local/bin/containerd > /run/containerd.log 2>&1 &
	for _ in $(seq 100); do
		[ -S /run/containerd/containerd.sock ] && return
		kill -0 $! 2> /dev/null || break
		sleep 0.1
	done
	cat /run/containerd.log
}

run_container() {
	start_containerd
	/usr/local/bin/ctr run --rm --cni --rootfs /run/rootfs one "$@" 2>&1
}

kubelet() {
	start_containerd
	[ -z "$pod" ] || cat > /run/pods/pod.yaml <<-END
		apiVersion: v1
		kind: Pod
		metadata: {name: pod}
		spec: {containers: [{name: one, image: example.com/one}]}
	END
	[ -z "$api" ] || cat > /run/kubeconfig <<-END
		apiVersion: v1
		kind: Config
		clusters: [{name: one, cluster: {server: "https://$api"}}]
		contexts: [{name: one, context: {cluster: one, user: one}}]
		current-context: one
		users: [{name: one, user: {token: x}}]
	END
	cat > /run/kubelet.yaml <<-END
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		authentication: {webhook: {enabled: false}, anonymous: {enabled: true}}
		authorization: {mode: AlwaysAllow}
		cgroupDriver: cgroupfs
		failCgroupV1: false
		failSwapOn: false
		staticPodPath: /run/pods
		resolvConf: /run/systemd/resolve/resolv.conf
		containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
		$config
	END
	timeout 15 $with /usr/local/bin/kubelet --config /run/kubelet.yaml --hostname-override one \
		${api:+--kubeconfig /run/kubeconfig} 2>&1
}

# outside makes a network behind this one: a container reaches it by forwarding.
outside() {
	ip link add out type veth peer name far
	ip address add 198.51.100.1/24 dev out
	ip link set out up
	unshare --net sleep 60 &
	sleep 0.5
	ip link set far netns $!
	nsenter --target $! --net sh -c 'ip address add 198.51.100.2/24 dev far; ip link set far up; ip route add default via 198.51.100.1'
	echo 1 > /proc/sys/net/ipv4/conf/out/forwarding
}

# container runs a container with a network by a CNI plugin.
container() { run_container /bin/busybox echo works; }

# abroad is a container that sends through the node.
abroad() { outside; run_container /bin/busybox ping -c 1 -W 2 198.51.100.2; }

mount --make-rprivate /
for folder in /opt /usr/local /run /var/lib /etc/cni; do
	mkdir -p $folder
done
mount -t tmpfs world /opt
mount -t tmpfs world /usr/local
mount -t tmpfs world /run
mount -t tmpfs world /var/lib
mkdir -p /etc/cni && mount -t tmpfs world /etc/cni
mkdir -p /opt/cni /usr/local/bin /etc/cni/net.d /var/lib/kubelet /var/lib/containerd /run/pods /run/systemd/resolve /run/rootfs/bin
cp -a "$programs/cni" /opt/cni/bin
cp "$programs"/bin/* /usr/local/bin
cp /bin/busybox /run/rootfs/bin
echo nameserver 192.0.2.53 > /run/systemd/resolve/resolv.conf
cat > /etc/cni/net.d/10-world.conflist <<END
{"cniVersion": "1.0.0", "name": "world", "plugins": [{"type": "ptp", "ipam":
 {"type": "host-local", "ranges": [[{"subnet": "10.201.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
END
PATH=/usr/local/bin:$PATH
ip link set lo up
echo 1 > /proc/sys/net/ipv4/ip_forward
eval "$setting"
"$command"

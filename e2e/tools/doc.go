// Package tools builds the programs that the project's own tests and images
// need and that no Debian package has: packer and its amazon plugin for the
// machine that runs the tests; kubelet, ecr-credential-provider, kubeadm,
// kube-bench, critest and the CNI plugins for the node; etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler and kubectl for the clusters that
// nodes join.
//
// Each is built from its Go module, as the Go module proxy hands it out and
// the checksum database vouches for it, and then kept below
// os.UserCacheDir()/eksnode/tools under its name, version, architecture and
// the Go version that built it. Two processes never build the same thing
// twice: the second waits for the first.
//
// Nothing here is shipped to users. Real images take these programs from
// their upstream sites.
package tools

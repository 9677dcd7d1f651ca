// Package join proves that a captured image joins a real cluster. A lab has two
// control planes of etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler, each with a certificate authority by kubeadm and an endpoint
// of its own. The instances are machines of kind machine.Node: the image's own
// containerd, runc and kubelet run pods in them.
//
// Only AWS is replaced by doubles. The instances have a metadata service of the
// lab. [Authenticator] recomputes the signature of the kubelet's token with its
// own cluster's name, and maps the instance's role to the node's user. Two
// controllers approve serving certificates and remove the uninitialized taint,
// as EKS and the cloud controller manager do.
//
// The program of `make aws` also runs here, with machines in place of instances.
package join

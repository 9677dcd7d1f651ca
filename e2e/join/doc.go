// Package join proves that a captured image joins a cluster, on real ones: two
// control planes of etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler in a lab, each with a certificate authority by kubeadm and an
// endpoint of its own, and instances that are machines of kind machine.Node, in
// which the image's own containerd, runc and kubelet run pods.
//
// Doubles stand in for AWS alone: the instances' metadata service;
// [Authenticator], which recomputes the signature of the kubelet's token with its
// own cluster's name and maps the instance's role to the node's user; and the two
// controllers that approve serving certificates and take the uninitialized taint
// away, as EKS and the cloud controller manager do.
package join

// Package firstboot boots instances from a captured image, with user data of
// either contract and a metadata service of their own, and looks at what the
// boot units have made of them: a real systemd, cloud-init, containerd and
// kubelet. Whether a cluster takes such nodes in is package join's business.
package firstboot

data "eksnode-cluster" "this" {
  name = "my-cluster"
}
data "eksnode-base-ami" "base" {
  distro  = "debian"
  version = "12"
}
locals {
  kubelet = { "1.34" = "1.34.4" }[data.eksnode-cluster.this.version]
}
source "null" "x" { communicator = "none" }
build {
  sources = ["null.x"]
  provisioner "shell-local" {
    inline = ["echo kubelet ${local.kubelet} on ${data.eksnode-base-ami.base.id} in ${data.eksnode-cluster.this.subnet_ids[0]}"]
  }
}

# Builds the AMI for one cluster. The template reads Kubernetes version and network
# from the cluster, and finds the publisher's newest base image.
#
#   packer init .
#   packer build -var cluster=my-cluster .

packer {
  required_plugins {
    amazon = {
      source  = "github.com/hashicorp/amazon"
      version = ">= 1.8.2"
    }
    eksnode = {
      source  = "github.com/eksnode/eksnode"
      version = ">= 0.1.0"
    }
  }
}

variable "cluster" {
  description = "Cluster name"
  type        = string
}

variable "region" {
  description = "AWS region of the cluster"
  type        = string
  default     = "us-east-1"
}

variable "distro" {
  description = "The distribution, by its ID in docs/reference/distributions.md, and its version."
  type        = object({ id = string, version = string })
  default     = { id = "debian", version = "13" }
}

variable "kubelets" {
  description = "Kubelet version for each minor version of Kubernetes. A cluster with another minor version stops the build"
  type        = map(string)
  default     = { "1.35" = "1.35.4", "1.36" = "1.36.3" }
}

variable "ssh_interface" {
  description = "Address that Packer connects to: \"public_ip\" or \"private_ip\" (default: the public address, if there is one)"
  type        = string
  default     = ""
}

variable "versions" {
  description = "Versions of single assets, by the asset's name (default: those that go with the kubelet)"
  type        = map(string)
  default     = {}
}

variable "source_url" {
  description = "Mirror of the upstream sites (default: the sites themselves)"
  type        = string
  default     = ""
}

variable "allow_http" {
  description = "Accept a mirror with http:// without a lock file or checksums"
  type        = bool
  default     = false
}

data "eksnode-cluster" "this" {
  name   = var.cluster
  region = var.region
}

data "eksnode-base-ami" "base" {
  distro  = var.distro.id
  version = var.distro.version
  region  = var.region
}

# Describes the future AMI, for its tags. The image's manifest says the same.
data "eksnode-contents" "node" {
  distro             = var.distro.id
  kubernetes_version = var.kubelets[data.eksnode-cluster.this.version]
  versions           = var.versions
}

locals {
  kubelet = var.kubelets[data.eksnode-cluster.this.version]
}

source "amazon-ebs" "node" {
  ami_name      = "${var.cluster}-${var.distro.id}-${formatdate("YYYYMMDDhhmmss", timestamp())}"
  region        = var.region
  instance_type = "m6i.large"
  source_ami    = data.eksnode-base-ami.base.id
  ssh_username  = data.eksnode-base-ami.base.ssh_username
  ssh_interface = var.ssh_interface
  subnet_id     = data.eksnode-cluster.this.subnet_ids[0]
  imds_support  = "v2.0"

  skip_ami_run_tags       = true
  temporary_key_pair_type = "ed25519"

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  launch_block_device_mappings {
    device_name           = data.eksnode-base-ami.base.root_device
    volume_type           = "gp3"
    volume_size           = 8
    encrypted             = true
    delete_on_termination = true
  }

  ami_description = data.eksnode-contents.node.description
  tags = merge(data.eksnode-contents.node.tags, {
    "eksnode:base-image" = data.eksnode-base-ami.base.name
  })
}

build {
  sources = ["amazon-ebs.node"]

  provisioner "eksnode" {
    kubernetes_version = local.kubelet
    versions           = var.versions
    source_url         = var.source_url
    allow_http         = var.allow_http
  }

  provisioner "eksnode-scrub" {}

  post-processor "eksnode-publish" {
    parameter = "/eksnode/${var.cluster}/${var.distro.id}"
  }
}

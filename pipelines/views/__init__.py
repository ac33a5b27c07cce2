"""What people look at: commutes of areas, maps, figures, exports, evaluations; made from public folders."""
